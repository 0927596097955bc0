package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/base/shell"
	"bakeoff/measure/execution"
	"bakeoff/measure/webroot"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/load"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

// isUsers tells that the server is the user's: bakeoff does not configure it and does not know
// what it serves. It starts the server's program if run or the image names one.
func (s *Server) isUsers() bool { return s.name == http.Own }

// ownURLs returns what the generator requests from such a server: one page, whose first
// response is the reference for the others, or a list.
func ownURLs(p param.Values) ([]load.URL, error) {
	invalid := func(fix, format string, args ...any) ([]load.URL, error) {
		return nil, fault.WithFix(fault.New(fault.Invalid, format, args...), fix)
	}
	if p.Int("port") == 0 {
		return invalid("set for example port: 80", "server own needs the port of the server")
	}
	if argv := p.List("run"); len(argv) > 0 && argv[0] == "" {
		return invalid("write run: [program, argument]", "run names no program")
	}
	for _, name := range []string{"http2", "ktls", "tcp-nopush"} {
		if p.Bool(name) {
			return invalid("remove "+name, "%s cannot be set for server own, which bakeoff does not configure", name)
		}
	}
	if p.Text("site") != "" {
		return invalid("remove site, and name the page with path or urls",
			"site cannot be set for server own, which serves its own files")
	}
	switch list := p.Text("urls"); {
	case list == "home" || list == "":
		u := load.URL{Path: "/", Length: -1}
		if p.Text("path") != "" {
			u.Path = p.Text("path")
		}
		return []load.URL{u}, fault.Wrap(fault.Invalid, "path", u.Check())
	case p.Text("path") != "":
		return invalid("remove one of them", "path and urls both name what to request")
	case path.IsAbs(list):
		return firstResult("own urls "+list, func() ([]load.URL, error) { return load.ReadURLs(list) })
	default:
		return invalid("set path: /page, or urls: /path/of/a/list", "urls of server own must be home or an absolute path "+
			"(got %q)", list)
	}
}

// forwardKey is the key in Target.State of the address of a server in an environment
// without one, or of its address of IPv6.
const forwardKey = "http.forward"

// Forward asks where the peer reaches the user's server, if that is not at the address of the
// environment: it has none, or family is ipv6.
func Forward(ctx context.Context, t execution.Target, p param.Values) error {
	if p.Text("server") != http.Own || t.State[forwardKey] != "" {
		return nil
	}
	var at netip.AddrPort
	var err error
	switch six := p.Text("family") == http.IPv6; {
	case six && t.Forward == nil && t.AddIPv6 != nil:
		var a netip.Addr
		a, err = t.AddIPv6(ctx)
		at = netip.AddrPortFrom(a, uint16(p.Int("port")))
	case six:
		return fault.WithFix(fault.New(fault.Unsupported, "the environment is not on a network with IPv6"),
			"remove family: ipv6")
	case t.Forward == nil:
		return nil
	default:
		at, err = t.Forward(ctx, uint16(p.Int("port")))
	}
	if err == nil {
		t.State[forwardKey] = at.String()
	}
	return err
}

// startProgram starts the user's program, unless a server answers already, waits until it answers,
// and notes what it says about itself.
func (s *Server) startProgram(ctx context.Context) error {
	argv := s.params.List("run")
	if len(argv) == 0 {
		argv = s.target.Start.Argv
	}
	if len(argv) > 0 {
		if err := s.startOwn(ctx, argv); err != nil {
			return err
		}
	}
	if err := s.wait(ctx); err != nil {
		return err
	}
	d := Description{Server: http.Own, TLS: s.negotiated}
	if s.logFile() != "" {
		d.Program, d.User, d.Config = argv, s.target.Start.User, s.nginxConfig(ctx, argv)
		s.warnOfWorkers(ctx, d.Config)
	}
	if !s.http2() {
		var err error
		if d.Version, err = s.serverField(ctx); err != nil {
			return fault.Wrap(fault.Subject, "", err)
		}
	}
	b, err := json.Marshal(d)
	if s.target.State != nil {
		s.target.State[stateKey] = string(b)
	}
	return err
}

// ownKey is the key of the program that was started at a port, in Target.Shared: cells of one
// environment share it.
func (s *Server) ownKey() string { return "http.own " + strconv.Itoa(int(s.port())) }

// logFile is the file with the output of the program that bakeoff started; "" if it started none.
func (s *Server) logFile() string {
	if s.target.Shared[s.ownKey()] == "" {
		return ""
	}
	return s.ownDir() + "/own.log"
}

// programKey is the key of the folder of a program that was started, in Target.Shared: it may
// listen at several ports.
func programKey(program string) string { return "http.own of " + program }

// ownDir is the folder with the output and the end of the program that bakeoff started.
func (s *Server) ownDir() string {
	return cmp.Or(s.target.Shared[programKey(s.target.Shared[s.ownKey()])], s.dir)
}

// startOwn starts the program of the user's server as its image says: as its user, in its
// folder. It starts nothing if a server answers already and the lab file names no program.
func (s *Server) startOwn(ctx context.Context, argv []string) error {
	key, named := shell.Quote(argv...), len(s.params.List("run")) > 0
	if started := s.target.Shared[s.ownKey()]; started == key {
		return nil
	} else if started != "" {
		return fault.WithFix(fault.New(fault.Invalid, "another cell has started %s at port %d of this environment", started,
			s.port()), "give the cells different values of port")
	}
	if s.target.Shared[programKey(key)] != "" { // it listens at this port, too
		s.target.Shared[s.ownKey()] = key
		return nil
	}
	if s.listens(ctx) {
		if !named {
			return nil
		}
		return fault.WithFix(fault.New(fault.Subject, "something listens at %s before bakeoff starts %s", s.addr, key),
			"remove run to measure what listens there, or stop it")
	}
	c := s.target.Subject
	dir, from := s.target.Start.Dir, s.target.Start
	if dir == "" {
		dir = s.dir
	}
	line := []string{c.Info().Agent, "start", "--log", s.dir + "/own.log", "--status", s.dir + "/own.status", "--dir", dir}
	if from.User != "" {
		line = append(line, "--user", from.User)
		if from.Dir == "" {
			line = append(line, "--own")
		}
	}
	said := conn.Tail{Limit: 2048}
	exit, err := c.Exec(ctx, conn.Cmd{Argv: append(append(line, "--"), argv...), Stdout: &said, Stderr: &said})
	switch text := strings.TrimPrefix(safetext.LastLines(string(said.Bytes()), 2), "bakeoff-agent: "); {
	case err != nil:
		return err
	case exit.Code == wire.ExitNotFound:
		return fault.WithFix(fault.New(fault.Subject, "%s", text), "correct run, or install the program in the environment")
	case !exit.OK():
		return fault.New(fault.Subject, "%s cannot be started: %s", key, text)
	}
	if s.target.Shared != nil {
		s.target.Shared[s.ownKey()], s.target.Shared[programKey(key)] = key, s.dir
	}
	return nil
}

// listens tells whether something accepts connections at the server's address.
func (s *Server) listens(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	c, err := s.target.Peer.Dial(ctx, "tcp", s.addr.String())
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// nginxConfig is the configuration that nginx reads, verbatim; "" of other programs, or if it
// is not a file of at most 64 KiB.
func (s *Server) nginxConfig(ctx context.Context, argv []string) string {
	at := slices.IndexFunc(argv, func(a string) bool { return path.Base(a) == http.Nginx })
	if at < 0 {
		return ""
	}
	file := "/etc/nginx/nginx.conf"
	if i := slices.Index(argv[at:], "-c"); i > 0 && at+i+1 < len(argv) {
		file = argv[at+i+1]
	}
	text, err := readText(ctx, s.target.Subject, file)
	if err != nil {
		return "" // it may be elsewhere: it only describes
	}
	return text
}

// workersAuto is the directive that makes nginx count CPUs.
var workersAuto = lazy.Compile(`(?m)^\s*worker_processes\s+auto\s*;`)

// warnOfWorkers says that nginx counts the CPUs of the machine where the environment may use
// fewer: neither a CPU set nor a quota changes what its C library counts.
func (s *Server) warnOfWorkers(ctx context.Context, config string) {
	limits := s.target.Subject.Info().Limits
	if s.target.Warn == nil || limits.CPUs == nil || !workersAuto.MatchString(config) {
		return
	}
	text, err := readText(ctx, s.target.Subject, "/sys/devices/system/cpu/online")
	if err != nil {
		return
	}
	all, err := probe.ParseCPUs(strings.TrimSpace(text))
	may := float64(*limits.CPUs)
	if limits.Quota != nil {
		may = min(may, *limits.Quota)
	}
	if err == nil && float64(len(all)) > may {
		s.target.Warn(fmt.Sprintf("nginx.conf has worker_processes auto: nginx may start a worker for each of the "+
			"machine's %d CPUs, but this environment may use only %g; write worker_processes %g",
			len(all), may, max(1, math.Floor(may))))
	}
}

// programEnd is how the program that bakeoff started has ended; nil while it runs.
func (s *Server) programEnd(ctx context.Context) (*wire.Started, error) {
	if s.logFile() == "" {
		return nil, nil
	}
	text, err := readText(ctx, s.target.Subject, s.ownDir()+"/own.status")
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	x, err := wire.ParseStarted([]byte(text))
	return &x, fault.Wrap(fault.Lab, "", err)
}

// programError is an error if the program that bakeoff started has failed. One that ended with exit
// code 0 may have left its server in the background.
func (s *Server) programError(ctx context.Context) error {
	x, err := s.programEnd(ctx)
	if err != nil || x == nil || x.Code == 0 {
		return err
	}
	return fault.Wrap(fault.Subject, "", s.explainOwn(ctx, errors.New("the server has ended")))
}

// explainOwn adds how the user's program has ended, and what it has printed last.
func (s *Server) explainOwn(ctx context.Context, err error) error {
	if s.logFile() == "" {
		if !s.target.Subject.Info().OwnKernel {
			return fault.WithFix(err, "nothing in the environment starts a server: write run: [program, argument]")
		}
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	if x, eerr := s.programEnd(ctx); eerr == nil && x != nil {
		err = fmt.Errorf("%w; %s ended with %s", err, shell.Quote(x.Argv...), conn.Exit{Code: x.Code, Signal: x.Signal})
	}
	log := conn.Tail{Limit: 2048}
	if s.target.Subject.Pull(ctx, s.logFile(), &log) == nil && len(bytes.TrimSpace(log.Bytes())) > 0 {
		err = fmt.Errorf("%w; its last lines: %s", err, safetext.LastLines(string(log.Bytes()), ownLines))
	}
	return err
}

// ownLines is how many lines of its output an error quotes.
const ownLines = 5

// serverField is the field Server of a response; "" if it has none.
func (s *Server) serverField(ctx context.Context) (string, error) {
	head, _, err := s.peer().Get(ctx, s.urls[0], checkTime)
	for line := range strings.Lines(head) {
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Server") {
			return safetext.Line(strings.TrimSpace(value)), err
		}
	}
	return "", err
}

// maxMean bounds the mean response with which a path is measured, in bytes: larger ones fill
// it no better.
const maxMean = 1 << 20

// MeanResponse is the mean length of the bodies that the generator gets, in bytes. The user's
// server is asked for its first page if nothing else says how long that is.
func (s *Server) MeanResponse(ctx context.Context) int64 {
	urls := slices.Clone(s.urls)
	if s.isUsers() && urls[0].Length < 0 {
		if _, length, err := s.peer().Get(ctx, urls[0], checkTime); err == nil { // Check says what is wrong
			urls[0].Length = length
		}
	}
	return min(load.MeanLength(urls, webroot.MinPage), maxMean)
}
