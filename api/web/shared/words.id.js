/** English text -> Indonesian text, for the texts of the shared modules. */

export const INDONESIAN = {
  "This field is required.": "Ini harus diisi.",
  Cancel: "Batal",
  "{n} s": "{n} dtk",
  "{n} min": "{n} menit",
  "{m} min {s} s": "{m} mnt {s} dtk",
  "{h} h {n} min": "{h} jam {n} menit",
};
