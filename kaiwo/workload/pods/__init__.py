"""Pod templates: containers, resources, volumes, placement, and Ray clusters made of them."""
