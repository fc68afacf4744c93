#include "stream_program.h"

namespace s7::stream {

namespace {

constexpr int64_t kFormat = 1;
constexpr int64_t kLargest = 1 << 16;       // maximum width, state size and rank
constexpr int64_t kMostTokens = 1ll << 31;  // tokens are 32-bit integers

class Reader {
 public:
  Reader(const int64_t* settings, int64_t setting_count, const float* weights, int64_t weight_count)
      : settings_(settings), settings_left_(setting_count), weights_(weights), weights_left_(weight_count) {}

  bool good() const { return good_; }
  bool finished() const { return good_ && settings_left_ == 0 && weights_left_ == 0; }
  void fail() { good_ = false; }
  int64_t settings_left() const { return settings_left_; }

  // Returns the next setting. After a failure it returns `least`, so that the caller can finish reading.
  int64_t setting(int64_t least, int64_t most) {
    if (settings_left_ < 1 || *settings_ < least || *settings_ > most) good_ = false;
    if (!good_) return least;
    --settings_left_;
    return *settings_++;
  }
  bool flag() { return setting(0, 1) == 1; }
  template <class Kind>
  Kind kind(Kind last) {
    return Kind(setting(0, int64_t(last)));
  }

  // Returns the next array of this size, or null after a failure.
  const float* array(int64_t rows, int64_t columns = 1, int64_t depth = 1) {
    const int64_t size = rows * columns * depth;  // each at most 2¹⁶, or two of them and 2³¹: no overflow
    if (!good_ || weights_left_ < size) {
      good_ = false;
      return nullptr;
    }
    const float* array = weights_;
    weights_ += size;
    weights_left_ -= size;
    return array;
  }
  const float* array_if(bool wanted, int64_t rows, int64_t columns = 1, int64_t depth = 1) {
    return wanted ? array(rows, columns, depth) : nullptr;
  }
  float number() {
    const float* one = array(1);
    return one == nullptr ? 1.0f : *one;
  }

 private:
  const int64_t* settings_;
  int64_t settings_left_;
  const float* weights_;
  int64_t weights_left_;
  bool good_ = true;
};

int64_t eighth(int64_t size) { return (((size + 1) / 2 + 1) / 2 + 1) / 2; }

void read_encoder(Reader& reader, int64_t H, EncoderPlan& plan) {
  plan.kind = reader.kind(Encoding::kImage);
  switch (plan.kind) {
    case Encoding::kToken:
      plan.tokens = reader.setting(1, kMostTokens);
      plan.token = reader.array(plan.tokens, H);
      break;
    case Encoding::kEvent: {
      const int64_t columns = reader.setting(1, kLargest);
      plan.rows = reader.setting(1, kLargest);
      plan.tokens = 2 * columns * plan.rows;
      const bool token = reader.flag(), x = reader.flag(), y = reader.flag(), polarity = reader.flag();
      if (plan.tokens > kMostTokens || !(token || x || y || polarity)) return reader.fail();
      plan.token = reader.array_if(token, plan.tokens, H);
      plan.x = reader.array_if(x, columns, H);
      plan.y = reader.array_if(y, plan.rows, H);
      plan.polarity = reader.array_if(polarity, 2, H);
      break;
    }
    case Encoding::kLinear:
      plan.inputs = reader.setting(1, kLargest);
      plan.mean = reader.array(plan.inputs);
      plan.scale = reader.array(plan.inputs);
      plan.W = reader.array(H, plan.inputs);
      plan.c = reader.array(H);
      break;
    case Encoding::kDense:
      plan.inputs = reader.setting(1, int64_t(1) << 24);
      plan.hidden = reader.setting(1, kLargest);
      plan.scale = reader.array(1);
      plan.W1 = reader.array(plan.hidden, plan.inputs);
      plan.c1 = reader.array(plan.hidden);
      plan.W = reader.array(H, plan.hidden);
      plan.c = reader.array(H);
      break;
    case Encoding::kImage: {
      plan.height = reader.setting(8, 4096);
      plan.breadth = reader.setting(8, 4096);
      plan.colours = reader.setting(1, 256);
      plan.channels = reader.setting(1, 4096);
      plan.inputs = plan.height * plan.breadth * plan.colours;
      plan.scale = reader.array(1);
      plan.W1 = reader.array(25, plan.colours, plan.channels);
      plan.c1 = reader.array(plan.channels);
      plan.W2 = reader.array(9, plan.channels, plan.channels);
      plan.c2 = reader.array(plan.channels);
      plan.W = reader.array(H, eighth(plan.height) * eighth(plan.breadth), plan.channels);
      plan.c = reader.array(H);
      break;
    }
  }
}

void read_form(Reader& reader, BlockPlan& plan) {
  const int64_t H = plan.width, S = plan.rows();
  plan.form = reader.kind(Form::kFactored);
  plan.rank = reader.setting(0, kLargest);
  const bool B = reader.flag(), C = reader.flag(), bias = reader.flag();
  plan.direct = reader.kind(Direct::kFull);
  const bool full = plan.form == Form::kFull, factored = plan.form == Form::kFactored;
  if ((plan.form == Form::kStatic && (B || C)) || factored != (plan.rank > 0)) return reader.fail();
  const int64_t R = plan.rank;
  plan.B = reader.array(S, H);
  plan.b = reader.array_if(bias, S);
  plan.W_B = reader.array_if(full && B, S, H, H);
  plan.V1 = reader.array_if(factored && B, R, H);
  plan.V2 = reader.array_if(factored && B, R, H);
  plan.V3 = reader.array_if(factored && B, S, R);
  plan.C = reader.array(H, S);
  plan.W_C = reader.array_if(full && C, H, S, H);
  plan.U1 = reader.array_if(factored && C, R, S);
  plan.U2 = reader.array_if(factored && C, R, H);
  plan.U3 = reader.array_if(factored && C, H, R);
  const bool matrix = plan.direct == Direct::kFull;
  plan.D = reader.array(H, matrix ? H : 1);
  plan.W_D = reader.array_if(plan.direct != Direct::kStatic, H, H, matrix ? H : 1);
}

void read_block(Reader& reader, int64_t width, BlockPlan& plan) {
  plan.width = width;
  plan.out = reader.setting(1, kLargest);
  plan.state = reader.setting(1, kLargest);
  plan.stride = reader.setting(1, int64_t(1) << 30);
  plan.pooling = reader.kind(Pooling::kTime);
  plan.norm = reader.kind(Normalization::kBatch);
  plan.norm_after = reader.flag();
  const bool gate = reader.flag();
  plan.skip = reader.flag();
  plan.transition = reader.kind(Transition::kRing);
  const bool selective = reader.flag();
  plan.complex_state = reader.flag();
  const int64_t reading = reader.setting(0, 3);  // how gaps are read: 1 if inputs are held, plus 2 if states count
  plan.held = reading % 2 == 1;
  plan.counting = reading >= 2;
  plan.gain = reader.kind(Gain::kVariance);
  const bool always = plan.transition == Transition::kStep || plan.transition == Transition::kRing;
  if ((always && !plan.complex_state) || (plan.transition == Transition::kPlain && plan.complex_state)) reader.fail();

  const int64_t H = width, P = plan.state;
  const bool normalised = plan.norm != Normalization::kNone, batch = plan.norm == Normalization::kBatch;
  plan.scale = reader.array_if(normalised, H);
  plan.shift = reader.array_if(normalised && plan.norm != Normalization::kRms, H);
  plan.mean = reader.array_if(batch, H);
  plan.variance = reader.array_if(batch, H);
  plan.a = reader.number();
  plan.b_rate = reader.number();
  plan.w = reader.array(P);
  plan.W_w = reader.array_if(selective, P, H);
  plan.omega = reader.array_if(plan.complex_state, P);
  plan.decay = reader.array_if(plan.transition == Transition::kStep, P);
  read_form(reader, plan);
  plan.gate_W = reader.array_if(gate, H, H);
  plan.gate_c = reader.array_if(gate, H);
  plan.project_W = reader.array_if(plan.out != H, plan.out, H);
  plan.project_c = reader.array_if(plan.out != H, plan.out);
}

bool read_model(Reader& reader, Program& program) {
  ModelPlan& model = program.model;
  reader.setting(kFormat, kFormat);
  int64_t width = reader.setting(1, kLargest);
  model.gaps_ignored = reader.flag();
  model.has_gap = reader.flag();
  model.gap = reader.number();
  model.time_unit = reader.number();
  if (!(model.time_unit > 0) || !(model.gap >= 0)) reader.fail();
  read_encoder(reader, width, model.encoder);
  model.depth = reader.setting(1, 4096);
  if (!reader.good()) return false;
  program.blocks.assign(size_t(model.depth), BlockPlan{});
  for (BlockPlan& block : program.blocks) {
    read_block(reader, width, block);
    width = block.out;
  }
  model.blocks = program.blocks.data();
  HeadPlan& head = model.head;
  head.kind = reader.kind(Reading::kLast);
  head.width = width;
  head.outputs = reader.setting(1, int64_t(1) << 24);
  head.W = reader.array(head.outputs, width);
  head.c = reader.array(head.outputs);
  head.scale = reader.array(head.outputs);
  head.mean = reader.array(head.outputs);
  return reader.finished();
}

}  // namespace

bool read_program(const int64_t* settings, int64_t setting_count, const float* weights, int64_t weight_count,
                  Program& program) {
  Reader reader(settings, setting_count, weights, weight_count);
  const bool read = read_model(reader, program);
  program.settings_read = setting_count - reader.settings_left();
  return read;
}

}  // namespace s7::stream
