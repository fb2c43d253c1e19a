"""The programs mcboost-train, mcboost-tune, mcboost-predict, mcboost-info and mcboost-convert."""
