exec /usr/bin/python3 work.py
