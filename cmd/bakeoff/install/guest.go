package install

import (
	"context"
	"fmt"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/cmd/bakeoff/guests"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/conn/ssh"
)

// guestHost reads [USER@]vm:GUEST, which is not a host of ssh: host names have no colon.
func guestHost(host string) (user, guest string, ok bool) {
	at, name, found := strings.Cut(host, "vm:")
	if !found || at != "" && !strings.HasSuffix(at, "@") {
		return "", "", false
	}
	return strings.TrimSuffix(at, "@"), name, true
}

// connectGuest reaches the SSH server of a guest of bakeoff vm. The host key is that of the guest's
// UUID, which bakeoff vm ssh stores.
func (a *commands) connectGuest(ctx context.Context, t targetFlags, user, name string) (conn.Conn, func(), error) {
	if t.port != 0 {
		return nil, nil, fault.WithFix(fault.New(fault.Invalid, "--port cannot be used with --host %s: bakeoff knows the "+
			"port of "+
			"a guest", safetext.Line(t.host)), "leave --port out")
	}
	s, err := guests.Store(a.at)
	if err != nil {
		return nil, nil, err
	}
	g, err := s.Find(name)
	if err != nil {
		return nil, nil, err
	}
	namespace, at, err := g.SSHServer()
	if err != nil {
		return nil, nil, err
	}
	o := ssh.Options{Name: t.host, Target: at.Addr().String(), Port: int(at.Port()), HostKey: guests.HostKey(g.UUID),
		Silence: installSilence, Progress: func(line string) { fmt.Fprintln(a.Err, safetext.Line(line)) }}
	if user != "" {
		o.Target = user + "@" + o.Target
	}
	if namespace != "" {
		o.Local = inNetwork{namespace: namespace}
	}
	c, err := a.at.Open(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	return c, func() { _ = c.Close() }, nil
}

// inNetwork executes programs of this machine in a network namespace.
type inNetwork struct {
	local.Conn
	namespace string
}

func (n inNetwork) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	cmd.Argv = append([]string{"nsenter", "--net=" + n.namespace, "--"}, cmd.Argv...)
	return n.Conn.Exec(ctx, cmd)
}
