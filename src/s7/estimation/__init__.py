"""Models for series without settings: everything that training needs is derived from the data."""
