export PYTHONPATH=/work/wt/me PYMCBOOST_DATA=/work/shared/data PATH=/work/main/.venv/bin:$PATH
unset OMP_WAIT_POLICY
cd /work/wt/me
