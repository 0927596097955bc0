package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/reach/wire"
)

// The agent describes the file that a command starts: after the search in PATH, below
// the working directory, and the interpreter of a script.
func TestExecutable(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) wire.Executable {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(content))
		return wire.Executable{Schema: wire.ExecutableSchema, Program: name, Path: file, Bytes: int64(len(content)),
			SHA256: hex.EncodeToString(sum[:])}
	}
	tool := write("tool", "binary")
	linked := tool
	linked.Program, linked.Path, linked.Target = "linked", filepath.Join(dir, "linked"), tool.Path
	if err := os.Symlink("tool", linked.Path); err != nil {
		t.Fatal(err)
	}
	script := write("script", "#! "+tool.Path+" -x\nrest\n")
	byEnv := write("by-env", "#!/usr/bin/env -S tool -x\n")
	relative := tool
	relative.Program = "./tool"
	byPath := tool
	byPath.Program = tool.Path
	nothing := wire.Executable{Schema: wire.ExecutableSchema, Program: "nothing",
		Unknown: "PATH has no program of this name"}
	folder := wire.Executable{Schema: wire.ExecutableSchema, Program: dir, Path: dir, Unknown: "the path does " +
		"not name a regular file"}
	t.Setenv("PATH", dir)
	for _, tt := range []struct {
		program     string
		want        wire.Executable
		interpreter *wire.Executable
	}{
		{"tool", tool, nil}, {"./tool", relative, nil}, {"linked", linked, nil}, {"nothing", nothing, nil},
		{dir, folder, nil}, {"script", script, &byPath}, {"by-env", byEnv, &tool},
	} {
		out, errs, code := run(t, "probe", "executable", "--json", "--dir", dir, tt.program)
		if code != wire.ExitOK {
			t.Fatalf("%s: code %d: %s", tt.program, code, errs)
		}
		got, err := wire.ParseExecutable([]byte(out))
		if err != nil {
			t.Fatal(err)
		}
		in := got.Interpreter
		if got.Interpreter = nil; got != tt.want || (in == nil) != (tt.interpreter == nil) ||
			in != nil && *in != *tt.interpreter {
			t.Errorf("%s: %+v by %+v, want %+v by %+v", tt.program, got, in, tt.want, tt.interpreter)
		}
	}
	if _, errs, code := run(t, "probe", "executable"); code != wire.ExitInvalid || !strings.Contains(errs, "PROGRAM") {
		t.Errorf("without a program: code %d, %s", code, errs)
	}
}
