"""The programs mcboost-train, mcboost-tune, mcboost-predict and mcboost-info."""
