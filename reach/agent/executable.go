package agent

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"bakeoff/reach/wire"
)

// maxExecutable bounds the size of a file that identify hashes, in bytes.
const maxExecutable = 1 << 30

// identify describes the file that `exec --dir dir -- program` starts, and the
// interpreter if it is a script.
func identify(dir, program string) wire.Executable {
	out := fileOf(dir, program)
	if out.SHA256 == "" {
		return out
	}
	argv := shebang(out.Path)
	if len(argv) == 0 {
		return out
	}
	in := fileOf(dir, argv[0])
	if rest := argv[1:]; filepath.Base(argv[0]) == "env" {
		// The program that env starts, which is the one that matters.
		if len(rest) > 0 && rest[0] == "-S" {
			rest = rest[1:]
		}
		if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && !strings.Contains(rest[0], "=") {
			in = fileOf(dir, rest[0])
		}
	}
	out.Interpreter = &in
	return out
}

// fileOf finds a program as package os/exec does, and hashes its file.
func fileOf(dir, program string) wire.Executable {
	out := wire.Executable{Schema: wire.ExecutableSchema, Program: program}
	found := program
	if !strings.Contains(program, "/") {
		var err error
		if found, err = exec.LookPath(program); err != nil {
			out.Unknown = "PATH has no program of this name"
			if !errors.Is(err, exec.ErrNotFound) {
				out.Unknown = reason(err)
			}
			return out
		}
	}
	if !filepath.IsAbs(found) {
		found = filepath.Join(dir, found)
	}
	out.Path = found
	if target, err := filepath.EvalSymlinks(found); err == nil && target != found {
		out.Target = target
	}
	var err error
	if out.Bytes, out.SHA256, err = digestOf(found); err != nil {
		out.Unknown = reason(err)
	}
	return out
}

// reason is an error without the operation and the path, which the result has.
func reason(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	return err.Error()
}

// digestOf returns the size and the SHA-256 of a regular file.
func digestOf(path string) (int64, string, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return 0, "", err
	case !st.Mode().IsRegular():
		return 0, "", errors.New("the path does not name a regular file")
	case st.Size() > maxExecutable:
		return st.Size(), "", fmt.Errorf("the file is larger than %d MiB", maxExecutable>>20)
	}
	f, err := os.Open(path)
	if err != nil {
		return st.Size(), "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, maxExecutable))
	if err != nil {
		return st.Size(), "", err
	}
	return n, hex.EncodeToString(h.Sum(nil)), nil
}

// shebang returns the words of the first line of a script after #!; nil if the file is
// no script.
func shebang(path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n') // Linux reads 256 bytes, too
	words, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return nil
	}
	return strings.Fields(words)
}
