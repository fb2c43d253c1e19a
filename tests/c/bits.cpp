// Scores rows with mcb.hpp: bits MODEL.mcb ROWS prints for each row the label, and the bits of scores and probabilities.
// ROWS holds float32 numbers.
#include "mcb.hpp"

#include <cinttypes>
#include <fstream>
#include <iostream>
#include <iterator>

static void print(const std::vector<double> &numbers) {
    for (double number : numbers) {
        std::uint64_t bits;
        std::memcpy(&bits, &number, sizeof bits);
        std::printf(" %016" PRIx64, bits);
    }
}

int main(int, char **argv) {
    const mcb::model model = mcb::model::load(argv[1]);
    std::ifstream file(argv[2], std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
    std::vector<float> rows(bytes.size() / sizeof(float));
    std::memcpy(rows.data(), bytes.data(), bytes.size());
    std::vector<double> scores(model.n_classes());
    for (std::size_t at = 0; at < rows.size(); at += model.n_features()) {
        const std::uint32_t k = model.predict(rows.data() + at, scores.data());
        std::printf("%s", model.label(k).c_str());
        print(scores);
        if (model.to_probabilities(scores.data())) print(scores);
        std::printf("\n");
    }
}
