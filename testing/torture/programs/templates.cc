#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>
template <int N> struct Sum { static long of(long x) { return x * N + Sum<N - 1>::of(x ^ N); } };
template <> struct Sum<0> { static long of(long x) { return x; } };
int main() {
  std::map<std::string, std::vector<std::function<long(long)>>> table;
  for (int i = 0; i < 10; i++) table["k" + std::to_string(i)].push_back([i](long x) { return Sum<300>::of(x + i); });
  std::regex word("[a-z]+[0-9]");
  long sum = 0;
  for (auto &[key, list] : table) if (std::regex_match(key, word)) for (auto &f : list) sum += f(sum);
  try { throw std::runtime_error("x"); } catch (std::exception &e) { std::cout << e.what() << sum; }
}
