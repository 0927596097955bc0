package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Hash returns the sha256 of the running executable, in hexadecimal.
func Hash() (string, error) {
	f, err := executable()
	if err != nil {
		return "", err
	}
	defer f.Close()
	return hash(f)
}

// remembered is what a file of HashOnce holds: the hash, and of what.
type remembered struct {
	Size    int64  `json:"size"`
	MtimeNS int64  `json:"mtime_ns"`
	SHA256  string `json:"sha256"`
}

// HashOnce is Hash with a memory: a file that belongs to one environment.
// Hashing takes most of a second in an emulated guest, and every trial would
// pay for it. An executable of another size or time is hashed anew; so is
// every one where path is "" or cannot be used.
func HashOnce(path string) (string, error) {
	if path == "" {
		return Hash()
	}
	f, err := executable()
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	if sum := recall(path, st); sum != "" {
		return sum, nil
	}
	sum, err := hash(f)
	if err == nil {
		remember(path, remembered{st.Size(), st.ModTime().UnixNano(), sum})
	}
	return sum, err
}

// recall returns the hash that path remembers of the executable st; "" if it
// remembers none.
func recall(path string, st fs.FileInfo) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	var m remembered
	if json.NewDecoder(io.LimitReader(f, 4096)).Decode(&m) != nil || m.Size != st.Size() || m.MtimeNS != st.ModTime().UnixNano() {
		return ""
	}
	if b, err := hex.DecodeString(m.SHA256); err != nil || len(b) != sha256.Size {
		return ""
	}
	return m.SHA256
}

// remember writes a whole file or none. That it cannot is no error: the next
// trial hashes again.
func remember(path string, m remembered) {
	b, err := json.Marshal(m)
	if err != nil {
		return
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".hash-*")
	if err != nil {
		return
	}
	_, err = tmp.Write(b)
	if tmp.Close() != nil || err != nil || os.Rename(tmp.Name(), path) != nil {
		os.Remove(tmp.Name())
	}
}

// executable opens what runs.
func executable() (*os.File, error) {
	if runtime.GOOS == "linux" {
		// What runs, even when the file was replaced. A root may have no
		// /proc.
		if f, err := os.Open("/proc/self/exe"); err == nil {
			return f, nil
		}
	}
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

func hash(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
