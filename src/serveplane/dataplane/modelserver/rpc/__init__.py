"""V2 over gRPC.

    protobuf   the wire format, as far as the protocol needs it
    messages   the Open Inference Protocol's messages
    service    the methods
    listener   the port, which costs nothing until someone calls
    client     asking another server
"""
