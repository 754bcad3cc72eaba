/* tensors.h: torch's tensors in memory, for those files that read them: c10's structures, and the Python object around them. */
#ifndef FRAMEJIT_GUARDS_TENSORS_H
#define FRAMEJIT_GUARDS_TENSORS_H

#include <Python.h>

#include <c10/core/TensorImpl.h>

#include <cstring>

namespace framejit {

/* leaf_tensor.cpp: torch.TensorBase and torch.Tensor. */
extern PyTypeObject *tensor_base, *plain_tensor;

/* torch's own headers for its Python objects take minutes to compile. That the layout is right is checked when the module is loaded (leaf_tensor.cpp). */
struct PythonTensor {
    PyObject_HEAD
    c10::TensorImpl *impl;
};

/* Names protected members; only its non-virtual functions are called, on any TensorImpl. */
struct Reader : c10::TensorImpl {
    bool has_custom_sizes() const { return matches_policy(SizesStridesPolicy::CustomSizes); }
    bool has_custom_strides() const { return matches_policy(SizesStridesPolicy::CustomStrides); }
    bool has_custom_device() const { return device_policy_; }
    bool has_custom_layout() const { return layout_policy_; }
    bool has_device() const { return device_opt_.has_value(); }
    int64_t offset() const { return storage_offset_; }

    /* TensorImpl::autograd_meta_ is private and its getters are calls into another library; it is the field behind the storage. */
    const c10::AutogradMetaInterface *meta() const {
        const c10::AutogradMetaInterface *found;
        std::memcpy(&found, reinterpret_cast<const char *>(&storage_) + sizeof storage_, sizeof found);
        return found;
    }
    bool needs_grad() const { return meta() != nullptr && meta()->requires_grad(); }

    /* Sizes and strides are one block, and dtype, device, policies and keys another; more than five dimensions are kept elsewhere. */
    /* As they lie in the C++ object, whatever the class says of itself. */
    c10::IntArrayRef raw_sizes() const { return sizes_and_strides_.sizes_arrayref(); }
    c10::IntArrayRef raw_strides() const { return sizes_and_strides_.strides_arrayref(); }
    bool keeps_sizes_inside() const { return sizes_and_strides_.size() <= C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE; }
    const char *sizes_begin() const { return reinterpret_cast<const char *>(&sizes_and_strides_); }
    const char *type_begin() const { return reinterpret_cast<const char *>(&data_type_); }
    const char *keys_end() const { return reinterpret_cast<const char *>(&key_set_ + 1); }
    static constexpr size_t size_words = sizeof(sizes_and_strides_) / 8, all_words = size_words + 2;
    static_assert(sizeof(sizes_and_strides_) % 8 == 0);
};

inline const Reader &read(PyObject *tensor) { return *static_cast<const Reader *>(reinterpret_cast<PythonTensor *>(tensor)->impl); }

/* Whether sizes, device and layout lie in the C++ object. */
inline bool is_plain(const Reader &tensor) {
    return !tensor.has_custom_sizes() && !tensor.has_custom_device() && !tensor.has_custom_layout() && tensor.has_device();
}

/* Whether strides and offset do too. */
inline bool has_strides(const Reader &tensor) { return !tensor.has_custom_strides() && tensor.layout() == c10::kStrided; }

}  // namespace framejit

#endif
