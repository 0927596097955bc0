package suite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Programs names an environment variable: a folder in which bakeoff and bakeoff-agent are
// already, built from the present sources. make test sets it.
const Programs = "BAKEOFF_TEST_PROGRAMS"

// BuildAgent writes bakeoff-agent to the file to. It copies the agent that make test has built,
// if there is one: to link it takes longer than many a test.
func BuildAgent(to string) error {
	if dir := os.Getenv(Programs); dir != "" {
		program, err := os.ReadFile(filepath.Join(dir, "bakeoff-agent"))
		if err != nil {
			return err
		}
		return os.WriteFile(to, program, 0o755)
	}
	c := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", to, "bakeoff/cmd/bakeoff-agent")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build bakeoff-agent: %w\n%s", err, out)
	}
	return nil
}
