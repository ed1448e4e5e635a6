// classify EXPORTED CLASSES PHOTO...: enrols the class folders and prints a line for each photo.
//   g++ -std=c++17 -O2 classify.cpp -I$ORT/include -L$ORT/lib -lonnxruntime -Wl,-rpath,$ORT/lib -o classify
// Photos are binary PPM here (`P6`); read them with the image library that you have.
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace fs = std::filesystem;
using Floats = std::vector<float>;

static Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "frn");
static const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);

template <typename T>
Ort::Value tensor(std::vector<T>& data, const std::vector<int64_t>& shape) {
  return Ort::Value::CreateTensor<T>(memory, data.data(), data.size(), shape.data(), shape.size());
}

std::vector<Ort::Value> run(Ort::Session& session, const std::vector<const char*>& inputs,
                            const std::vector<Ort::Value>& values, const char* output) {
  return session.Run(Ort::RunOptions{nullptr}, inputs.data(), values.data(), values.size(), &output, 1);
}

struct Model {
  Ort::Session prepare, features, head;
  int64_t r = 0, d = 0;

  explicit Model(const fs::path& exported)
      : prepare(env, (exported / "preprocess.onnx").c_str(), Ort::SessionOptions{}),
        features(env, (exported / "features.onnx").c_str(), Ort::SessionOptions{}),
        head(env, (exported / "head.onnx").c_str(), Ort::SessionOptions{}) {}

  // The feature map of a photo, r * d numbers.
  Floats embed(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::string kind;
    int64_t width = 0, height = 0, white = 0;
    file >> kind >> width >> height >> white;
    if (kind != "P6" || white != 255) throw std::runtime_error(path.string() + ": is no binary PPM");
    file.get();
    std::vector<uint8_t> pixels(width * height * 3);
    file.read(reinterpret_cast<char*>(pixels.data()), pixels.size());
    std::vector<Ort::Value> given;
    given.push_back(tensor(pixels, {height, width, 3}));
    auto images = run(prepare, {"image"}, given, "images");
    auto maps = run(features, {"images"}, images, "feature_map");
    const auto shape = maps[0].GetTensorTypeAndShapeInfo().GetShape();
    r = shape[1], d = shape[2];
    const float* data = maps[0].GetTensorData<float>();
    return Floats(data, data + r * d);
  }
};

std::vector<fs::path> sorted(const fs::path& folder) {
  std::vector<fs::path> found(fs::directory_iterator(folder), {});
  std::sort(found.begin(), found.end());
  return found;
}

// Classes of fewer than five examples get milder probabilities, as from `frn classify`.
double mildness(std::vector<int64_t> shots) {
  std::sort(shots.begin(), shots.end());
  const double median = (shots[(shots.size() - 1) / 2] + shots[shots.size() / 2]) / 2.0;
  return std::cbrt(std::min(1.0, median / 5));
}

int main(int count, char** words) {
  Model model(words[1]);
  // A class is the feature maps of its examples: nothing else is kept, nothing is trained.
  std::vector<std::string> names;
  std::vector<std::vector<Floats>> maps;
  for (const auto& folder : sorted(words[2])) {
    names.push_back(folder.filename().string());
    maps.emplace_back();
    for (const auto& path : sorted(folder)) maps.back().push_back(model.embed(path));
  }
  const int64_t way = names.size(), size = model.r * model.d;
  int64_t most = 0;
  std::vector<int64_t> shots;
  for (const auto& found : maps) shots.push_back(found.size()), most = std::max<int64_t>(most, found.size());
  Floats support(way * most * size);  // zeros where a class has fewer
  for (int64_t i = 0; i < way; ++i)
    for (size_t k = 0; k < maps[i].size(); ++k)
      std::copy(maps[i][k].begin(), maps[i][k].end(), support.begin() + (i * most + k) * size);

  for (int word = 3; word < count; ++word) {
    Floats query = model.embed(words[word]);
    std::vector<Ort::Value> given;
    given.push_back(tensor(support, {way, most, model.r, model.d}));
    given.push_back(tensor(shots, {way}));
    given.push_back(tensor(query, {1, model.r, model.d}));
    auto logits = run(model.head, {"support", "shots", "query"}, given, "logits");
    const float* data = logits[0].GetTensorData<float>();
    const float* best = std::max_element(data, data + way);
    double total = 0;
    for (int64_t i = 0; i < way; ++i) total += std::exp(mildness(shots) * (double(data[i]) - *best));
    std::cout << words[word] << "\t" << names[best - data] << "\t" << 1 / total << "\n";
  }
}
