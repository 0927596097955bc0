package main

import (
	"os"
	"path/filepath"

	"bakeoff/fault"
)

// agentPath finds bakeoff-agent for this machine: where BAKEOFF_AGENT says,
// else beside this program.
func agentPath(env func(string) string) (string, error) {
	const name = "bakeoff-agent"
	if p := env("BAKEOFF_AGENT"); p != "" {
		return checkAgent(p, "BAKEOFF_AGENT says it is there")
	}
	self, err := os.Executable()
	if err != nil {
		return "", fault.Wrap(fault.Lab, name, err)
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	return checkAgent(filepath.Join(filepath.Dir(self), name), "make builds it beside bakeoff; BAKEOFF_AGENT may name another place")
}

func checkAgent(path, fix string) (string, error) {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return "", fault.WithFix(fault.New(fault.NotFound, "%s is not a program", path), fix)
	}
	return filepath.Abs(path)
}
