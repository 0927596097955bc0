package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"bakeoff/env"
	"bakeoff/fault"
)

const agentName = "bakeoff-agent"

// agentPath finds bakeoff-agent for this machine: where BAKEOFF_AGENT says,
// else beside this program.
func agentPath(env func(string) string) (string, error) {
	if p := env("BAKEOFF_AGENT"); p != "" {
		return checkAgent(p, "BAKEOFF_AGENT says it is there")
	}
	dir, err := programDir()
	if err != nil {
		return "", err
	}
	return checkAgent(filepath.Join(dir, agentName), "make builds it beside bakeoff; BAKEOFF_AGENT may name another place")
}

// programDir is the folder that this program lies in.
func programDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fault.Wrap(fault.Lab, agentName, err)
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	return filepath.Dir(self), nil
}

func checkAgent(path, fix string) (string, error) {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return "", fault.WithFix(fault.New(fault.NotFound, "%s is not a program", path), fix)
	}
	return filepath.Abs(path)
}

// agentFor finds bakeoff-agent for a system: this machine's own where it fits,
// else bakeoff-agent-GOOS-GOARCH beside this program or in the cache. Where
// the source is at hand it is built into the cache.
func (a *app) agentFor(goos, goarch string) (string, error) {
	if goos == runtime.GOOS && goarch == runtime.GOARCH {
		return agentPath(a.env)
	}
	dir, err := programDir()
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s-%s-%s", agentName, goos, goarch)
	if p, err := checkAgent(filepath.Join(dir, name), ""); err == nil {
		return p, nil
	}
	_, cache := env.Dirs(a.env, os.Getuid())
	cached := filepath.Join(cache, "agent", name)
	for _, source := range []string{".", dir} {
		if built, err := buildAgent(source, cached, goos, goarch); built || err != nil {
			return cached, err
		}
	}
	return checkAgent(cached, fmt.Sprintf("in the source of bakeoff: CGO_ENABLED=0 GOOS=%s GOARCH=%s go build -trimpath -ldflags='-s -w' -o %s ./cmd/bakeoff-agent",
		goos, goarch, filepath.Join(dir, name)))
}

// buildAgent builds the agent where source is the source of this program; go
// does nothing where all is as it was.
func buildAgent(source, out, goos, goarch string) (bool, error) {
	if mod, err := os.ReadFile(filepath.Join(source, "go.mod")); err != nil || len(mod) < 15 || string(mod[:15]) != "module bakeoff\n" {
		return false, nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return false, nil
	}
	c := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, "./cmd/bakeoff-agent")
	c.Dir = source
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	if said, err := c.CombinedOutput(); err != nil {
		return false, fault.New(fault.Lab, "build %s for %s/%s: %w: %.500s", agentName, goos, goarch, err, said)
	}
	return true, nil
}
