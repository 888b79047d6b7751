"""InferenceService: gather what one reconcile looks at, decide (pure), apply, write one status."""
