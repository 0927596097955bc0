package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"bakeoff/reach/conn/local"
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

// remembered is the content of HashOnce's file: the hash, and the size and time
// of the executable.
type remembered struct {
	Size    int64  `json:"size"`
	MtimeNS int64  `json:"mtime_ns"`
	SHA256  string `json:"sha256"`
}

// HashOnce is Hash with a cache in the file path, which belongs to one
// environment: in an emulated guest, hashing takes most of a second for every
// trial. It computes the hash again if the executable's size or time has
// changed, and if path is "" or cannot be used.
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

// recall returns the hash in path of the executable st; "" if it has none.
func recall(path string, st fs.FileInfo) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	var m remembered
	if json.NewDecoder(io.LimitReader(f, 4096)).Decode(&m) != nil || m.Size != st.Size() ||
		m.MtimeNS != st.ModTime().UnixNano() {
		return ""
	}
	if b, err := hex.DecodeString(m.SHA256); err != nil || len(b) != sha256.Size {
		return ""
	}
	return m.SHA256
}

// remember writes the file atomically. It ignores errors: the next trial then
// hashes again.
func remember(path string, m remembered) {
	b, err := json.Marshal(m)
	if err != nil {
		return
	}
	_ = local.Conn{}.Push(context.Background(), path, 0o600, bytes.NewReader(b))
}

// executable opens the running executable.
func executable() (*os.File, error) {
	if runtime.GOOS == "linux" {
		// The running program, even if its file was replaced. A root
		// may lack /proc.
		if f, err := os.Open("/proc/self/exe"); err == nil {
			return f, nil
		}
	}
	path, err := os.Executable()
	if err != nil && filepath.IsAbs(os.Args[0]) { // NetBSD 7 does not tell the path of a program
		path, err = os.Args[0], nil
	}
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
