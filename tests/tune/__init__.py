"""Tests of the hyperparameter search."""
