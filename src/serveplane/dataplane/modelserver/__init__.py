"""Serves models over the V1 and V2 inference protocols.

    options     KServe's flags, parsed once
    model       what serves requests: the base class that users subclass too
    tensors     named, typed arrays as V2 knows them
    batching    many requests, one predict
    short       predictions that need no task
    repository  models by name: load, unload, index
    v1, v2      the two REST protocols;  rpc  V2 over gRPC
    formats/    scikit-learn, XGBoost, LightGBM, ONNX, a Python file
    server      routes, limits, drain
    workers     several processes behind one port;  siblings  how they serve the same models
"""
