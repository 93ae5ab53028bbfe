"""The API of Kaiwo: kinds, fields, defaults, validation, and the CRDs rendered from them."""
