// Package runner runs the workload command.
package runner

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/command"
	"bakeoff/reach/wire"
)

// Runner runs the workload.
type Runner struct{ command.Workload }

// New returns the runner.
func New() execution.Runner { return Runner{} }

// Files implements execution.Finder. It returns the working directory and the
// program that runs first, which may create the others. If no other command runs
// before argv, it also returns the program of cleanup, unless that has a path. It
// returns no program if the lab file sets PATH.
func (Runner) Files(p param.Values) []execution.File {
	if slices.ContainsFunc(p.List("env"), func(e string) bool { return strings.HasPrefix(e, "PATH=") }) {
		return workFolderOf(p)
	}
	files := programs(p)
	c := p.List("cleanup")
	if len(c) > 0 && c[0] != "" && !strings.Contains(c[0], "/") && len(p.List("prepare"))+len(p.List("reset")) == 0 {
		files = append(files, execution.File{Param: "cleanup", Path: c[0]})
	}
	return append(files, workFolderOf(p)...)
}

// workFolderOf is the working directory, if the lab file sets it.
func workFolderOf(p param.Values) []execution.File {
	if at := p.Text("workdir"); at != "" {
		return []execution.File{{Param: "workdir", Path: at, Folder: true}}
	}
	return nil
}

// programs are the program that runs first, and the script that it executes.
func programs(p param.Values) []execution.File {
	for _, name := range []string{"prepare", "reset", "argv"} {
		argv := p.List(name)
		if len(argv) == 0 {
			continue
		}
		if program := argv[0]; path.IsAbs(program) || program != "" && !strings.Contains(program, "/") {
			files := []execution.File{{Param: name, Path: program}}
			if len(argv) > 1 && path.IsAbs(argv[1]) && slices.Contains(interpreters, path.Base(program)) {
				files = append(files, execution.File{Param: name, Path: argv[1]})
			}
			return files
		}
		return nil
	}
	return nil
}

// interpreters are programs whose first argument is a file that they execute.
var interpreters = []string{"sh", "bash", "dash", "ksh", "zsh", "perl", "python", "python3", "ruby", "lua",
	"node", "php"}

// Prepare runs the command that the parameter prepare holds, and identifies the program.
func (r Runner) Prepare(ctx context.Context, t execution.Target, p param.Values) error {
	if err := r.Check(p); err != nil {
		return err
	}
	if len(p.List("argv")) == 0 && len(t.Start.Argv) == 0 {
		return command.NoProgram()
	}
	if _, err := runAside(ctx, t, p, "prepare"); err != nil {
		return err
	}
	return identify(ctx, t, p) // now: prepare may have built the program
}

// Reset runs the command that the parameter reset holds.
func (Runner) Reset(ctx context.Context, t execution.Target, p param.Values) error {
	_, err := runAside(ctx, t, p, "reset")
	return err
}

// Run runs the command, and the cleanup even when the command failed.
func (Runner) Run(ctx context.Context, t execution.Target, p param.Values) (workload.Raw, error) {
	raw := workload.Raw{}
	if facts := t.State[stateKey]; facts != "" {
		raw[workload.Facts] = []byte(facts)
	}
	out, said, err := runCommand(ctx, t, p, "argv")
	raw.Keep(workload.ExecBlob, out)
	raw.Keep(workload.Stderr, said)
	if ctx.Err() != nil {
		return raw, err
	}
	cleaned, cleanErr := runAside(ctx, t, p, "cleanup")
	raw.Keep(command.CleanupBlob, cleaned)
	return raw, cmp.Or(err, cleanErr)
}

// runAside runs an unmeasured command, which must end with exit code 0.
func runAside(ctx context.Context, t execution.Target, p param.Values, name string) ([]byte, error) {
	if len(p.List(name)) == 0 {
		return nil, nil
	}
	out, _, err := runCommand(ctx, t, p, name)
	if err != nil {
		return out, err
	}
	res, err := wire.ParseExec(out)
	if err != nil {
		return out, fault.Wrap(fault.Lab, "command: "+name, err)
	}
	if res.Code != 0 {
		return out, fault.New(fault.Subject, "command: %s: %q failed with %s%s", name, res.Argv[0], command.Ended(res),
			command.Quoted(res.Stderr))
	}
	return out, nil
}

// runCommand runs the command in the parameter name through the agent, and returns the
// agent's result and its standard error.
func runCommand(ctx context.Context, t execution.Target, p param.Values, name string) (stdout, stderr []byte,
	err error) {
	op := "command: " + name
	info := t.Subject.Info()
	dir, err := workFolder(t, p)
	if err != nil {
		return nil, nil, fault.Op(op, err)
	}
	argv := p.List(name)
	if name == "argv" && len(argv) == 0 {
		argv = t.Start.Argv
	}
	stdout, stderr, err = execution.Command{Conn: t.Subject, Agent: info.Agent, Where: " in the environment", Dir: dir,
		Limit: p.Duration("timeout"), Argv: argv, Env: p.List("env"), Quoted: command.Quoted, User: t.Start.User,
		Own: p.Text("dir") != "" || dir == info.Scratch, Repeat: repeated(p, name)}.Exec(ctx)
	return stdout, stderr, fault.Op(op, err)
}

// repeated is how long the command in the parameter name is repeated.
func repeated(p param.Values, name string) time.Duration {
	if name != "argv" {
		return 0
	}
	return p.Duration("repeat")
}

// workFolder is where the commands run.
func workFolder(t execution.Target, p param.Values) (string, error) {
	v := p.Text("dir")
	if v == "" {
		return cmp.Or(p.Text("workdir"), t.Start.Dir, t.Subject.Info().Scratch), nil
	}
	dir, ok := t.Subject.Info().Volumes[v]
	if !ok {
		return "", fault.WithFix(fault.New(fault.Unsupported, "the contender has no volume %s", v),
			fmt.Sprintf("add volumes: {%s: {backing: …, size: …}}", v))
	}
	return dir, nil
}

// program is what the command starts: the first word of argv, or the program of the image.
func program(t execution.Target, p param.Values) string {
	if argv := p.List("argv"); len(argv) > 0 {
		return argv[0]
	}
	return t.Start.Argv[0]
}
