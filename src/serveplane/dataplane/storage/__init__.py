"""Models from where they are kept to a folder.

    sources      which URI is read by what:  local, web, s3, gcs, azure, huggingface, oci
    connection   blocking HTTP for threads: keep-alive, redirects, TLS, proxies
    transfer     parallel ranged reads straight into files: resume, retries, stalls, checksums
    staging      where unfinished files wait, and how they become the folder at once
    archives     safe unpacking
    progress     a bar for people, JSON lines for programs

Threads rather than tasks: bytes then go from the socket to the file by `recv_into` and `pwrite`, both of which leave Python's lock alone.
"""
