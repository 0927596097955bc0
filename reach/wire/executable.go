package wire

import (
	"fmt"

	"bakeoff/base/strictjson"
)

// ExecutableSchema is the schema of an Executable.
const ExecutableSchema = "bakeoff/executable/v1"

// Executable is the output of `bakeoff-agent probe executable PROGRAM`: the file that
// `bakeoff-agent exec` starts.
type Executable struct {
	Schema  string `json:"schema"`
	Program string `json:"program"` // as the command names it
	// Path is where PATH has it, Target the file that Path links to; "" without one.
	Path   string `json:"path,omitempty"`
	Target string `json:"target,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	SHA256 string `json:"sha256,omitempty"` // hexadecimal
	// Unknown says why SHA256 is not known.
	Unknown string `json:"unknown,omitempty"`
	// Interpreter is the program that a script names in its first line.
	Interpreter *Executable `json:"interpreter,omitempty"`
}

// ParseExecutable parses an Executable.
func ParseExecutable(b []byte) (Executable, error) {
	var x Executable
	if err := strictjson.Decode(b, &x); err != nil {
		return x, err
	}
	if x.Schema != ExecutableSchema {
		return x, fmt.Errorf("schema is %q, expected %q", x.Schema, ExecutableSchema)
	}
	return x, nil
}
