package hosts

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/measure/workload/loops"
	"bakeoff/reach/agent"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

const agentName = "bakeoff-agent"

// Agent finds bakeoff-agent for this machine: the path in BAKEOFF_AGENT, or else
// the folder of this program. It refuses an agent of another build, which would
// fail in the middle of a run.
func (c Controller) Agent() (string, error) {
	path, err := c.AgentPath()
	if err != nil {
		return "", err
	}
	if _, ok := asked.Load(path); ok {
		return path, nil
	}
	if err = askAgent(path); err == nil {
		asked.Store(path, true)
	}
	return path, err
}

// asked are the agents that this process has asked, and that are of its build.
var asked sync.Map

// AgentPath is Agent for a process whose caller has asked the agent already.
func (c Controller) AgentPath() (string, error) {
	path, fix := c.Getenv("BAKEOFF_AGENT"), "correct BAKEOFF_AGENT"
	if path == "" {
		dir, err := programDir()
		if err != nil {
			return "", err
		}
		path, fix = filepath.Join(dir, agentName), "build it with make, or set BAKEOFF_AGENT to its path"
	}
	return checkAgent(path, fix)
}

// answerTime bounds how long an agent may take to answer; a busy machine may
// need seconds.
const answerTime = 20 * time.Second

// askAgent refuses an agent that is not of the same build as this program.
func askAgent(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	said, err := conn.Output(ctx, local.Conn{}, path, "about")
	if ctx.Err() != nil {
		return fault.New(fault.Lab, "%s did not report its version within %v", path, answerTime)
	}
	var about wire.About
	if err != nil || json.Unmarshal(said, &about) != nil || about.Protocol == 0 {
		return otherBuild(path, "it does not report its version")
	}
	if in := agent.Self(loops.All()).Differs(about); in != "" {
		return otherBuild(path, in)
	}
	return nil
}

// readAgent is askAgent for a program of another system, which cannot run here:
// it compares only the commit that the program was built from.
func readAgent(path string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return otherBuild(path, "it has no build information")
	}
	theirs, ours := agent.BuildOf(info), agent.Self(nil).Build
	if theirs != "" && ours != "" && theirs != ours {
		return otherBuild(path, fmt.Sprintf("it was built from %s, this program from %s", theirs, ours))
	}
	return nil
}

func otherBuild(path, in string) error {
	return fault.WithFix(fault.New(fault.Unsupported, "%s and this program are from different builds: %s", path, in),
		"run make build to build both")
}

// programDir is the folder of this program.
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
	if errors.Is(err, fs.ErrNotExist) {
		return "", fault.WithFix(fault.New(fault.Unsupported, "%s does not exist", path), fix)
	}
	if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return "", fault.WithFix(fault.New(fault.Unsupported, "%s is not an executable file", path), fix)
	}
	return filepath.Abs(path)
}

// agentFor finds bakeoff-agent for a system: that of this machine where it fits,
// else bakeoff-agent-GOOS-GOARCH in the folder of this program or in the cache.
// It builds the agent into the cache where the source is available.
func (c Controller) agentFor(goos, goarch string) (string, error) {
	if goos == runtime.GOOS && goarch == runtime.GOARCH {
		return c.Agent()
	}
	dir, err := programDir()
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s-%s-%s", agentName, goos, goarch)
	if p, err := checkAgent(filepath.Join(dir, name), ""); err == nil {
		return p, readAgent(p)
	}
	_, cache := c.Dirs()
	cached := filepath.Join(cache, "agent", name)
	for _, source := range []string{".", dir} {
		if built, err := buildAgent(source, cached, goos, goarch); built || err != nil {
			return cached, err
		}
	}
	cached, err = checkAgent(cached,
		fmt.Sprintf("in the source of bakeoff, run CGO_ENABLED=0 GOOS=%s GOARCH=%s "+
			"go build -trimpath -ldflags='-s -w' -o %s ./cmd/bakeoff-agent",
			goos, goarch, filepath.Join(dir, name)))
	if err != nil {
		return "", err
	}
	return cached, readAgent(cached)
}

// buildAgent builds the agent if source is the source of this program. It reports
// whether it did.
func buildAgent(source, out, goos, goarch string) (bool, error) {
	if mod, err := os.ReadFile(filepath.Join(source, "go.mod")); err != nil || len(mod) < 15 ||
		string(mod[:15]) != "module bakeoff\n" {
		return false, nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return false, nil
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, "./cmd/bakeoff-agent")
	build.Dir = source
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	if said, err := build.CombinedOutput(); err != nil {
		return false, fault.New(fault.Lab, "build %s for %s/%s: %w: %.500s", agentName, goos, goarch, err, said)
	}
	return true, nil
}
