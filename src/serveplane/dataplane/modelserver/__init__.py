"""Serves models over the V1 and V2 inference protocols.

    options     KServe's flags, parsed once
    model       what serves requests: the base class that users subclass too
    tensors     named, typed arrays as V2 knows them
    batching    many requests, one predict
    repository  models by name: load, unload, index
    v1, v2      the two REST protocols;  binary  V2's raw tensors;  rpc  V2 over gRPC
    formats/    scikit-learn, XGBoost, LightGBM, ONNX, a Python file
    server      routes, limits, drain
"""
