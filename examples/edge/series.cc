// Runs a model on rows of numbers: series MODEL FILE [GAP]
//
// FILE is text with one event per line, its numbers separated by commas. With GAP, the first number of each line is the
// time before the event. The answer after each event is printed.
#include <cstdio>
#include <fstream>
#include <s7.hpp>
#include <sstream>

std::vector<float> numbers(const std::string& line, size_t expected, int64_t number) {
  std::istringstream text(line);
  std::vector<float> values;
  for (std::string word; std::getline(text, word, ',');) values.push_back(std::stof(word));
  if (values.size() == expected) return values;
  throw std::runtime_error("line " + std::to_string(number) + ": " + std::to_string(values.size()) +
                           " numbers, expected " + std::to_string(expected));
}

int main(int count, char** arguments) try {
  if (count < 3) throw std::runtime_error("usage: series MODEL FILE [GAP]");
  const bool timed = count > 3;
  const s7::Model model(arguments[1]);
  if (model.inputs() == 0) throw std::runtime_error("the model reads tokens, not numbers");
  std::ifstream file(arguments[2]);
  if (!file) throw std::runtime_error(std::string(arguments[2]) + ": cannot be read");
  s7::Stream stream(model);
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    const std::vector<float> values = numbers(line, size_t(model.inputs()) + timed, ++number);
    stream.push(values.data() + timed, timed ? values.data() : nullptr, 1);
    const char* separator = "";
    for (float value : stream.read()) {
      std::printf("%s%.6g", separator, double(value));
      separator = ",";
    }
    std::printf("\n");
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
