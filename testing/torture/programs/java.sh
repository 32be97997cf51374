exec java -XX:-UsePerfData -Xmx400m Work.java
