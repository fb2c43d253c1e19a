"""The programs mcboost-train, mcboost-predict and mcboost-info."""
