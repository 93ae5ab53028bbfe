"""The programs in the containers of the demo on a real node. They import nothing of Kaiwo."""
