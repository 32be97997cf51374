import java.math.BigInteger; import java.security.MessageDigest; import java.util.*; import java.util.concurrent.*; import java.util.stream.*;
public class Work {
  static int deep(int n) { if (n == 0) throw new IllegalStateException("bottom"); return deep(n - 1) + 1; }
  static long failures(int n) { long caught = 0; for (int i = 0; i < n; i++) try { deep(i % 60); } catch (IllegalStateException e) { caught += e.getStackTrace().length > 0 ? 1 : 0; }
    Object o = null; for (int i = 0; i < n; i++) try { o.hashCode(); } catch (NullPointerException e) { caught++; } return caught; }
  static String hash(int n) throws Exception { MessageDigest d = MessageDigest.getInstance("SHA-256"); for (int i = 0; i < n; i++) d.update((byte) (i * 31)); return new BigInteger(1, d.digest()).toString(16); }
  public static void main(String[] a) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(4);
    for (int turn = 0; turn < 3; turn++) {
      List<Future<String>> all = new ArrayList<>(); for (int k = 0; k < 8; k++) { int n = 200000 + k; all.add(pool.submit(() -> hash(n))); }
      for (Future<String> f : all) System.out.println(f.get());
      System.out.println(failures(20000));
      Map<Long, Long> sums = new TreeMap<>(LongStream.range(0, 300000).boxed().map(i -> (i * 7919L) % 100003).collect(Collectors.groupingBy(x -> x % 10L, Collectors.summingLong(x -> x))));
      System.out.println(sums);
      System.out.println(BigInteger.TWO.pow(4000).mod(BigInteger.valueOf(1000000007)) + " " + new BigInteger("123456789").modPow(BigInteger.valueOf(65537), BigInteger.TWO.pow(521).subtract(BigInteger.ONE)).bitLength());
      StringBuilder b = new StringBuilder(); for (int i = 0; i < 50000; i++) b.append("w").append(i % 100).append(' ');
      System.out.println(b.toString().replaceAll("w(\\d)\\b", "<$1>").length());
      byte[][] garbage = new byte[1000][]; for (int i = 0; i < 200000; i++) garbage[i % 1000] = new byte[i % 2000]; System.gc();
      synchronized (b) { b.wait(5); }
    }
    pool.shutdown(); System.out.println(pool.awaitTermination(20, TimeUnit.SECONDS)); System.exit(3);
  }
}
