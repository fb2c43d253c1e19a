/* mcb.hpp: models of pymcboost in C++11 and later. The functions are those of mcb.h, and so are the bits of the scores.
 *
 *     mcb::model model = mcb::model::load("digits.mcb");          // throws mcb::error
 *     std::vector<double> scores(model.n_classes());
 *     std::uint32_t k = model.predict(row, scores.data());        // no allocation, no exception
 *     std::cout << model.label(k) << '\n';
 *
 * Without exceptions (-fno-exceptions) a model that is refused says so in status(), which is then not MCB_OK: ask it
 * before anything else. Of a file that cannot be read it is MCB_E_SHORT, and errno has the reason.
 *
 * A model owns the bytes of its file, and the memory of mcb_prepare. It can be moved, not copied. Any number of threads
 * may call its const functions, which allocate nothing (label and meta aside). A row has n_features() floats.
 *
 * Written by the pymcboost authors; the same licence as pymcboost (BSD-3-Clause). */
#ifndef MCB_HPP
#define MCB_HPP

#include "mcb.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mcb {

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS) || defined(_CPPUNWIND)
#define MCB__EXCEPTIONS 1

/* A model that is refused, or a call that this model has no answer for. */
class error : public std::runtime_error {
  public:
    error(int status, const std::string &where) : std::runtime_error(where + ": " + mcb_strerror(status)), status_(status) {}

    /* One of MCB_E_... */
    int status() const noexcept { return status_; }

  private:
    int status_;
};
#else
#define MCB__EXCEPTIONS 0
#endif

class model {
  public:
    /* From the bytes of a file. prepare: take memory with which rows of trees are scored faster. */
    explicit model(std::vector<unsigned char> bytes, bool prepare = true, const std::string &name = "model")
        : bytes_(std::move(bytes)), status_(mcb_open(&c_, bytes_.data(), bytes_.size())) {
        if (refused(name)) return;
        /* A linear machine would only be prepared for mcb_scores_sparse. */
        std::size_t room = prepare && c_.kind != MCB_KIND_LINEAR ? mcb_prepared_size(&c_) : 0;
        if (!room) return;
        memory_.reset(new double[(room + sizeof(double) - 1) / sizeof(double)]);
        status_ = mcb_prepare(&c_, memory_.get(), room);
        refused(name);
    }

    /* From a file. std::runtime_error where it cannot be read. */
    static model load(const std::string &path, bool prepare = true) {
        std::vector<unsigned char> bytes;
        if (!read(path, bytes)) {
            bytes.clear();
#if MCB__EXCEPTIONS
            throw std::runtime_error(path + ": " + std::strerror(errno));
#endif
        }
        return model(std::move(bytes), prepare, path);
    }

    /* MCB_OK, or why the model was refused, one of MCB_E_... */
    int status() const noexcept { return status_; }

    model(model &&) noexcept = default;
    model &operator=(model &&) noexcept = default;
    model(const model &) = delete;
    model &operator=(const model &) = delete;

    std::size_t n_features() const noexcept { return c_.n_features; }
    std::size_t n_classes() const noexcept { return c_.n_classes; }
    std::uint64_t n_learners() const noexcept { return c_.n_learners; }

    /* The model as mcb.h knows it; it lives as long as this one, and moves with it. */
    const mcb_model &c() const noexcept { return c_; }

    /* Label of class k: its text, or its integer as text. */
    std::string label(std::uint32_t k) const {
        std::size_t length;
        const char *text = mcb_label_text(&c_, k, &length);
        return text ? std::string(text, length) : std::to_string(mcb_label_int(&c_, k));
    }

    /* JSON with the parameters of the training. */
    std::string meta() const {
        std::size_t length;
        const char *text = mcb_meta(&c_, &length);
        return text ? std::string(text, length) : std::string();
    }

    /* Class of a row, and its n_classes() scores. */
    std::uint32_t predict(const float *row, double *scores) const noexcept { return mcb_predict(&c_, row, scores); }

    /* Scores of n rows, which begin `stride` floats after each other: n * n_classes() numbers. */
    void scores(const float *rows, std::size_t n, std::size_t stride, double *scores) const noexcept {
        mcb_scores_batch(&c_, rows, n, stride, scores);
    }

    /* Whether each feature can matter: mcb_used_features. */
    std::vector<bool> used_features() const {
        std::vector<unsigned char> bits((c_.n_features + std::size_t(7)) / 8);
        mcb_used_features(&c_, bits.data());
        std::vector<bool> used(c_.n_features);
        for (std::size_t f = 0; f < used.size(); f++) used[f] = (bits[f / 8] >> (f % 8) & 1) != 0;
        return used;
    }

    bool has_probabilities() const noexcept { return mcb_has_probabilities(&c_) != 0; }

    /* Scores of a row become its probabilities, in place. False where the model has none. */
    bool to_probabilities(double *scores) const noexcept { return mcb_probabilities(&c_, scores) == MCB_OK; }

    /* Class of a row by an early exit, MCB_EARLY_CERTIFIED and the like; *n_learners of the learners were asked. False
     * where the model has no such exit. */
    bool predict_early(int way, const float *row, double *scores, std::uint32_t *k, std::uint64_t *n_learners) const noexcept {
        return mcb_predict_early(&c_, way, row, scores, k, n_learners) == MCB_OK;
    }

    /* Let a linear machine leave hyperplanes out in predict_early with MCB_EARLY_CERTIFIED; other models stay as they are. */
    void prepare_early() {
        std::size_t room = mcb_early_size(&c_);
        if (!room) return;
        early_.reset(new double[(room + sizeof(double) - 1) / sizeof(double)]);
        mcb_prepare_early(&c_, early_.get(), room);
    }

    /* Value in a row of a category's name; NaN for a name that the training did not have. */
    float level(std::uint32_t feature, const std::string &name) const noexcept {
        return mcb_level_code(&c_, feature, name.data(), name.size());
    }

  private:
    /* Whether the model is refused: an exception, where there are any. */
    bool refused(const std::string &name) const {
#if MCB__EXCEPTIONS
        if (status_ != MCB_OK) throw error(status_, name);
#endif
        (void)name;
        return status_ != MCB_OK;
    }

    /* The bytes of a file; false where it cannot be read, and errno says why. */
    static bool read(const std::string &path, std::vector<unsigned char> &bytes) {
        std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
        if (!file) return false;
        std::size_t n = 0;
        do {
            bytes.resize(n + n / 2 + 65536);
            errno = 0;
            std::size_t more = std::fread(bytes.data() + n, 1, bytes.size() - n, file.get());
            if (std::ferror(file.get())) return false;
            n += more;
        } while (n == bytes.size());
        bytes.resize(n);
        return true;
    }

    std::vector<unsigned char> bytes_;
    std::unique_ptr<double[]> memory_, early_;
    mcb_model c_;
    int status_;
};

#undef MCB__EXCEPTIONS

} // namespace mcb

#endif
