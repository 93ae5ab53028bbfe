"""The parts of the reference pages that follow from the code: ``python -m docs.generate`` renews them."""
