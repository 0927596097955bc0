// Package runner runs the workloads of tools: it finds a tool's program in the
// environment, brings up the server that the tool needs, runs it, and keeps
// what it printed.
package runner

import (
	"context"
	"path"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/tool"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/external"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// Runner runs the workload of a tool.
type Runner struct{ external.Workload }

// New returns the runner of a tool.
func New(x tool.Tool) execution.Runner { return Runner{external.New(x)} }

// Prepare finds the program, starts its server, and runs the tool's
// preparation.
func (r Runner) Prepare(ctx context.Context, t execution.Target, p param.Values) error {
	err := r.prepare(ctx, t, p)
	return fault.Op(r.Tool().Doc().Name, err)
}

func (r Runner) prepare(ctx context.Context, t execution.Target, p param.Values) error {
	s, err := r.site(t, p)
	if err != nil {
		return err
	}
	if err := s.findProgram(ctx); err != nil {
		return err
	}
	warning, err := r.Tool().Doc().Check(s.known.Facts["version"])
	if err != nil {
		return err
	}
	if warning != "" && t.Warn != nil {
		t.Warn(warning)
	}
	at, err := s.placeTool(ctx)
	if err != nil {
		return err
	}
	if err := s.startServer(ctx, &at); err != nil {
		return err
	}
	// Refuse invalid parameters before the first trial.
	if _, err := r.Tool().Command(p, at); err != nil {
		return err
	}
	if n, ok := r.Tool().(tool.Noter); ok {
		for name, note := range n.Notes(p, at) {
			if name != tool.CaveatFix {
				s.known.Facts[name] = note
			}
		}
	}
	s.known.At = at
	if err := execution.Remember(t.State, s.stateKey(), s.known); err != nil {
		return err
	}
	if q, ok := r.Tool().(tool.Preparer); ok {
		cmds, err := q.Prepare(p, at)
		return s.runUnmeasured(ctx, cmds, err)
	}
	return nil
}

// Reset runs the tool's commands before each trial.
func (r Runner) Reset(ctx context.Context, t execution.Target, p param.Values) error {
	err := r.reset(ctx, t, p)
	return fault.Op(r.Tool().Doc().Name, err)
}

func (r Runner) reset(ctx context.Context, t execution.Target, p param.Values) error {
	s, err := r.recalled(t, p)
	if err != nil {
		return err
	}
	if err := s.checkServer(ctx); err != nil {
		return err
	}
	q, ok := r.Tool().(tool.Resetter)
	if !ok {
		return nil
	}
	cmds, err := q.Reset(p, s.known.At)
	return s.runUnmeasured(ctx, cmds, err)
}

// Run does one trial.
func (r Runner) Run(ctx context.Context, t execution.Target, p param.Values) (workload.Raw, error) {
	raw, err := r.run(ctx, t, p)
	return raw, fault.Op(r.Tool().Doc().Name, err)
}

func (r Runner) run(ctx context.Context, t execution.Target, p param.Values) (workload.Raw, error) {
	s, err := r.recalled(t, p)
	if err != nil {
		return nil, err
	}
	cmd, err := r.Tool().Command(p, s.known.At)
	if err != nil {
		return nil, err
	}
	raw := execution.WithFacts(s.known.Facts)
	if err := s.makeFolder(ctx, cmd); err != nil {
		return raw, err
	}
	if s.tool.Doc().Server == tool.Web {
		if err := s.keepWeb(raw); err != nil {
			return raw, err
		}
	}
	out, said, err := s.exec(ctx, cmd)
	raw.Keep(workload.ExecBlob, out)
	raw.Keep(workload.Stderr, said)
	if err != nil {
		return raw, err
	}
	return raw, s.keepFiles(ctx, cmd, raw)
}

// known is what Prepare found out and Run needs.
type known struct {
	Program string            `json:"program"` // its path
	At      tool.Place        `json:"at"`
	Facts   map[string]string `json:"facts"`
}

// site is where a tool runs: the environment, or the load generator's side.
type site struct {
	tool    tool.Tool
	params  param.Values
	target  execution.Target
	conn    conn.Conn
	agent   string
	dir     string // of the tool's own
	limit   time.Duration
	known   known
	program string // as Doc names it
}

func (r Runner) site(t execution.Target, p param.Values) (*site, error) {
	d := r.Tool().Doc()
	if t.Subject == nil {
		return nil, fault.New(fault.Lab, "no environment")
	}
	info := t.Subject.Info()
	s := &site{tool: r.Tool(), params: p, target: t, limit: r.Limit(p), program: d.Program,
		conn: t.Subject, agent: info.Agent, dir: path.Join(info.Scratch, "bakeoff-"+d.Name)}
	if d.Server == tool.Web {
		if t.Peer == nil || t.PeerAgent == "" || t.PeerDir == "" {
			return nil, fault.New(fault.Lab, "the trial has no place to run the load generator")
		}
		s.conn, s.agent, s.dir = t.Peer, t.PeerAgent, path.Join(t.PeerDir, "bakeoff-"+d.Name)
	}
	return s, nil
}

// stateKey is where known is kept between calls.
func (s *site) stateKey() string { return "tool." + s.tool.Doc().Name }

// recalled is site with what Prepare found.
func (r Runner) recalled(t execution.Target, p param.Values) (*site, error) {
	s, err := r.site(t, p)
	if err != nil {
		return nil, err
	}
	return s, execution.Recall(t.State, s.stateKey(), &s.known)
}

// runUnmeasured runs unmeasured commands, which must end with exit code 0.
func (s *site) runUnmeasured(ctx context.Context, cmds []tool.Command, err error) error {
	for _, cmd := range cmds {
		if err := s.makeFolder(ctx, cmd); err != nil {
			return err
		}
		out, _, err := s.exec(ctx, cmd)
		if err != nil {
			return err
		}
		res, err := wire.ParseExec(out)
		if err != nil {
			return fault.Wrap(fault.Lab, cmd.Argv[0], err)
		}
		if err := external.Ended(res); err != nil {
			return err
		}
	}
	return err
}
