"""Many streams over one connection, as kubectl and kubelets speak them: SPDY and WebSockets, the server's half."""
