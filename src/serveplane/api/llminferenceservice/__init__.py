"""LLMInferenceService and LLMInferenceServiceConfig, v1alpha1 and v1alpha2: types, conversion, defaults, validation."""
