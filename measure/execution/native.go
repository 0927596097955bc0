package execution

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/measure/workload"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// The bounds of a native workload's output, in bytes.
const (
	maxResult = 8 << 20
	maxStderr = 64 << 10
)

// native runs a native workload: a loop of the agent.
type native struct{ workload.NativeParser }

// Native returns the runner of a native workload.
func Native(p workload.NativeParser) Runner { return native{p} }

// Check implements Checker.
func (n native) Check(p param.Values) error {
	if n.Loop().Check == nil {
		return nil
	}
	return n.Loop().Check(p)
}

func (n native) Prepare(ctx context.Context, t Target, p param.Values) error {
	if n.Loop().Prepare == nil {
		return nil
	}
	_, err := n.execStage(ctx, t, p, wire.StagePrepare)
	return err
}

func (n native) Reset(ctx context.Context, t Target, p param.Values) error {
	if n.Loop().Reset == nil {
		return nil
	}
	_, err := n.execStage(ctx, t, p, wire.StageReset)
	return err
}

func (n native) Run(ctx context.Context, t Target, p param.Values) (workload.Raw, error) {
	return n.execStage(ctx, t, p, wire.StageRun)
}

// hangTime is how much longer than planned a stage may take before it counts as hung. An emulated
// machine beside other programs needs minutes for what takes a second elsewhere.
const hangTime = 6 * time.Minute

// execStage runs one stage of the loop on the subject and classifies its end.
func (n native) execStage(ctx context.Context, t Target, p param.Values, stage string) (workload.Raw, error) {
	op := n.Doc().Name // the caller adds the stage
	dir, err := n.loopFolder(t, p)
	if err != nil {
		return nil, fault.Op(op, err)
	}
	limit := 5*n.Doc().Time(p) + hangTime
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTooLong)
	defer cancel()
	stdout, stderr := &conn.Head{Limit: maxResult}, &conn.Head{Limit: maxStderr}
	info := t.Subject.Info()
	argv := append([]string{info.Agent, "work", n.Doc().Name, "--json", "--stage", stage, "--dir", dir,
		"--hash-file", path.Join(info.Scratch, "bakeoff-agent.sha256")}, p.Args()...)
	exit, err := t.Subject.Exec(ctx, conn.Cmd{Argv: argv, Stdout: stdout, Stderr: stderr})
	raw := workload.Raw{}
	raw.Keep(workload.Work, stdout.Bytes())
	raw.Keep(workload.Stderr, stderr.Bytes())
	switch {
	case errors.Is(context.Cause(ctx), errTooLong):
		return raw, fault.New(fault.Subject, "%s: not finished within %v", op, limit)
	case fault.Is(err, fault.NotFound):
		return raw, fault.Wrap(fault.Lab, op, fmt.Errorf("bakeoff-agent is missing in the environment: %w", err))
	case err != nil:
		return raw, fault.Op(op, err)
	case stdout.Cut:
		return raw, fault.New(fault.Lab, "%s: output is longer than %d bytes", op, maxResult)
	}
	return raw, fault.Op(op, exitError(exit, raw[workload.Stderr]))
}

var errTooLong = errors.New("the deadline of the workload passed")

// loopFolder returns the loop's directory on the subject.
func (n native) loopFolder(t Target, p param.Values) (string, error) {
	root := t.Subject.Info().Scratch
	if n.Doc().Volume != "" {
		var err error
		if root, err = t.Volume(p.Text(n.Doc().Volume)); err != nil {
			return "", err
		}
	}
	return path.Join(root, "bakeoff-"+n.Doc().Name), nil
}

// Volume is where the volume that is declared at path lies in the environment.
func (t Target) Volume(path string) (string, error) {
	root, ok := t.Subject.Info().Volumes[path]
	if !ok {
		return "", fault.WithFix(fault.New(fault.Unsupported, "the contender has no volume %s", path),
			"add volumes: {"+path+": {backing: …, size: …}}, to say which storage to measure")
	}
	return root, nil
}

// exitError classifies the exit of the agent; nil is success.
func exitError(exit conn.Exit, stderr []byte) error {
	if exit.OK() {
		return nil
	}
	said := strings.TrimPrefix(safetext.LastLines(string(stderr), 1), "bakeoff-agent: ")
	if said == "" {
		said = "bakeoff-agent failed with " + exit.String()
	}
	kind := fault.Lab
	switch {
	case exit.Signal != "" || exit.Code > 128:
		// Killed from outside, most likely by the kernel, out of
		// memory.
		return fault.New(fault.Subject, "bakeoff-agent was killed by %s: %s", exit, said)
	case exit.Code == wire.ExitSubject:
		kind = fault.Subject
	case exit.Code == wire.ExitUnsupported:
		kind = fault.Unsupported
	}
	return fault.New(kind, "%s", said)
}
