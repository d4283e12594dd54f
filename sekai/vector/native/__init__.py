"""Native environments: the state of all sub-envs in arrays, and single envs made of them."""
