// Score one row with a saved model, in C++11.
//
//     score MODEL.mcb
//
// The row has 64 features, as the digits in data/ have. Put your own data there.
#include "mcb.hpp"
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

int main(int argc, char **argv) try {
    if (argc != 2) throw std::runtime_error("usage: score MODEL.mcb");
    const std::string path = argv[1];
    const mcb::model model = mcb::model::load(path);
    std::vector<float> row(64); // your data
    row[42] = 9;
    if (model.n_features() != row.size())
        throw std::runtime_error(path + ": the model does not have 64 features");

    std::vector<double> scores(model.n_classes());
    std::uint32_t k = model.predict(row.data(), scores.data());
    std::cout << "class " << model.label(k) << '\n';
    if (model.to_probabilities(scores.data())) std::cout << "probability " << scores[k] << '\n';
} catch (const std::exception &problem) {
    std::cerr << problem.what() << '\n';
    return 1;
}
