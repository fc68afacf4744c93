"""Events: from what a sensor gives to what a model reads."""
