"""What users write: the kinds, their fields and defaults, and the CRDs made from them."""
