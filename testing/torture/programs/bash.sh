exec bash work.sh
