package command

import (
	"fmt"
	"path"
	"strings"

	"bakeoff/base/safetext"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"
)

// Executable returns the facts of the file that a command starts, for the blob
// workload.Facts: FactExecutable and FactPath, and those of a script's interpreter.
// Two builds of one program differ in the first. The same build can have several paths.
func Executable(x wire.Executable) map[string]string {
	facts := map[string]string{workload.FactExecutable: content(x)}
	if x.Path != "" {
		facts[workload.FactPath] = pathText(x)
		if strings.Contains(x.Program, "/") && !path.IsAbs(x.Program) {
			facts[workload.FactPath] = safetext.Clip(x.Program, 400) // in a folder of each environment
		}
	}
	if in := x.Interpreter; in != nil {
		facts[workload.FactInterpreter] = content(*in)
		if in.Path != "" {
			facts[workload.FactInterpreterPath] = pathText(*in)
		}
	}
	return facts
}

// content is the name, the digest and the size of a file, or why they are not known.
func content(x wire.Executable) string {
	if x.SHA256 == "" {
		return fmt.Sprintf("unavailable: %s: %s", safetext.Clip(x.Program, 200), safetext.Clip(x.Unknown, 400))
	}
	return fmt.Sprintf("%s: sha256:%s (%d B)", safetext.Clip(x.Program, 200), x.SHA256, x.Bytes)
}

// pathText is the path of a file, and the file that it links to.
func pathText(x wire.Executable) string {
	if x.Target == "" {
		return safetext.Clip(x.Path, 400)
	}
	return safetext.Clip(x.Path, 400) + " -> " + safetext.Clip(x.Target, 400)
}
