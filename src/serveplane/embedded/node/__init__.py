"""A Kubernetes node that runs containers as ordinary processes of this user.

It speaks the Kubernetes API only, so it joins the embedded API server and a real one alike. `images` says which
command an image stands for; `paths` and `environment` turn a container's spec into that command's words; `volumes`
makes its folders; `containers` and `pods` keep the processes as the spec wants them; `agent` ties a Node to them.
"""
