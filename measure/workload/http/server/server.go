// Package server configures and starts the web server of an environment: nginx,
// lighttpd, or the environment's own.
package server

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash/crc32"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sleep"
	"bakeoff/measure/execution"
	"bakeoff/measure/webroot"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/load"
	"bakeoff/reach/conn"
)

const (
	// startTime bounds the wait for a server's first page.
	startTime = 30 * time.Second
	// answerTime bounds one attempt to get that page.
	answerTime = 2 * time.Second
	// checkTime bounds the check of a server that has answered before. One that is
	// slow, because its machine is busy, has not failed.
	checkTime = 15 * time.Second
	// pollTime is the pause between attempts, and so the error of the wait.
	pollTime = 5 * time.Millisecond
)

// endTime is the pause between questions whether the user's program has ended.
const endTime = 100 * time.Millisecond

// PagePath is the path of the page.
const PagePath = "/index.html"

// Server is a web server in an environment, also for other load generators. All its
// files are below dir.
type Server struct {
	program
	target      execution.Target
	params      param.Values
	dir         string // inside
	addr        netip.AddrPort
	site        webroot.Site
	urls        []load.URL // what the generator asks for
	certificate string     // its SHA-256; "" while unknown
	negotiated  string     // how the user's server speaks TLS; "" while unknown
}

// start starts the server, unless it runs with the same configuration.
func (s *Server) start(ctx context.Context) error {
	if s.isUsers() {
		return s.startProgram(ctx)
	}
	c := s.target.Subject
	if err := s.kernelTLS(ctx); err != nil {
		return err
	}
	user, err := s.identity(ctx)
	if err != nil {
		return err
	}
	config := s.config(s, user)
	if old, err := readText(ctx, c, s.filePath("conf")); err == nil && old == config && s.running(ctx) {
		return s.storeDescription(ctx, user)
	}
	if err := s.write(ctx, config); err != nil {
		return err
	}
	said := conn.Tail{Limit: 2048}
	exit, err := c.Exec(ctx, conn.Cmd{Argv: s.program.start(s.dir), Stdout: &said, Stderr: &said})
	switch {
	case fault.Is(err, fault.NotFound):
		return fault.WithFix(fault.Wrap(fault.Subject, s.name+" is not installed in the environment", err),
			"install it there: apt-get install "+s.name)
	case err != nil:
		return err
	case !exit.OK():
		return fault.Wrap(fault.Subject, "",
			s.explain(ctx, fmt.Errorf("%s did not start: %s: %s", s.name, exit, bytes.TrimSpace(said.Bytes()))))
	}
	if err := s.wait(ctx); err != nil {
		return err
	}
	if err := s.proveKernelTLS(ctx); err != nil {
		return err
	}
	return s.storeDescription(ctx, user)
}

// filePath is the program's file of this kind: conf, pid.
func (s *Server) filePath(kind string) string { return s.dir + "/" + s.name + "." + kind }

// running reports whether this server runs and answers.
func (s *Server) running(ctx context.Context) bool {
	if _, err := readText(ctx, s.target.Subject, s.filePath("pid")); err != nil {
		return false
	}
	return s.fetchPage(ctx, checkTime) == nil
}

// identity returns nginx's user directive. The workers run as the user that
// runs bakeoff in the environment, who can read the scratch directory, which on
// a bare host is below directories of root. Without root, nginx ignores the
// directive. A program whose workers keep that user by themselves has none.
func (s *Server) identity(ctx context.Context) (string, error) {
	if !s.user {
		return "", nil
	}
	uid, err := conn.Output(ctx, s.target.Subject, "id", "-u")
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(string(uid)) != "0" {
		return "", nil
	}
	group, err := conn.Output(ctx, s.target.Subject, "id", "-gn")
	if err != nil {
		return "", err
	}
	return "root " + strings.TrimSpace(string(group)), nil
}

// The range of default ports.
const (
	firstPort = 8080
	ports     = 400
)

// port returns the server's port.
func (s *Server) port() uint16 {
	if n := s.params.Int("port"); n != 0 {
		return uint16(n)
	}
	anywhere := *s // the same port wherever it listens
	anywhere.target.Listen = netip.Addr{}
	sum := crc32.ChecksumIEEE([]byte(s.config(&anywhere, "") + s.params.Text("page") + s.params.Text("key")))
	return firstPort + uint16(sum%ports)
}

// Ports are the ports of the server with these parameters, and of the responder that
// measures the path to it.
func Ports(p param.Values) []uint16 {
	s := &Server{program: programOf(p), params: p}
	var err error
	if s.site, s.urls, err = content(p); err != nil {
		return nil // Check says why
	}
	return []uint16{s.port(), ResponderPort}
}

// ResponderPort is the port of the responder where an environment publishes its ports.
const ResponderPort = firstPort - 1

// descriptors is the number of file descriptors of a worker. It has few
// distinct values, so that cells with different numbers of connections can
// share a server.
func descriptors(connections int64) int64 {
	if connections <= 480 {
		return 1024 // the usual limit, which requires no privilege
	}
	return 24 << 10
}

// nginx returns nginx's configuration, which is the same everywhere except for
// the address and the directory.
func (s *Server) nginx(user string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if user != "" {
		line("user %s;", user)
	}
	line("# serves %s", s.site.Sum()) // so that another site changes the configuration
	line("worker_processes %d;", s.params.Int("workers"))
	line("pid %s/nginx.pid;", s.dir)
	line("error_log %s/error.log warn;", s.dir)
	line("daemon on;")
	room := descriptors(s.params.Int("connections"))
	if room > 1024 {
		line("worker_rlimit_nofile %d;", room)
	}
	line("events { worker_connections %d; }", room)
	line("http {")
	line("  types { text/html html htm; text/css css; text/xml xml; text/plain txt; image/svg+xml svg; image/png " +
		"png; image/jpeg jpg jpeg; application/javascript js; }")
	line("  access_log off;")
	if s.http2() && !s.params.Bool("tls") {
		// nginx 1.22 turns TCP_NODELAY off around sendfile, and the end of
		// a response waits for a delayed acknowledgement: 40 ms.
		line("  sendfile off;")
	} else {
		line("  sendfile on;")
	}
	if s.params.Bool("tcp-nopush") {
		line("  tcp_nopush on;")
	}
	line("  tcp_nodelay on;")
	// By default the server closes a connection after 1000 requests.
	line("  keepalive_requests 2147483647;")
	line("  keepalive_timeout 1h;")
	for _, temp := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		line("  %s_temp_path %s/temp/%s;", temp, s.dir, temp)
	}
	line("  server {")
	secure := ""
	if s.params.Bool("tls") {
		secure = " ssl"
	}
	if s.params.Bool("http2") || s.http2() {
		secure += " http2" // deprecated since nginx 1.25.1, but the only form that older ones know
	}
	line("    listen %s%s backlog=4096;", s.target.ListenAddr(s.addr), secure)
	line("    root %s/www;", s.dir)
	if s.params.Bool("tls") {
		line("    ssl_certificate %s/certificate.pem;", s.dir)
		line("    ssl_certificate_key %s/key.pem;", s.dir)
		line("    ssl_protocols TLSv1.2 TLSv1.3;")
	}
	if s.params.Bool("ktls") {
		line("    ssl_conf_command Options KTLS;")
	}
	line("  }")
	line("}")
	return b.String()
}

// write writes the server's files.
func (s *Server) write(ctx context.Context, config string) error {
	c := s.target.Subject
	if _, err := conn.Output(ctx, c, "mkdir", "-p", s.dir+"/temp"); err != nil {
		return err
	}
	if err := s.setup(ctx, s.dir+"/www"); err != nil {
		return err
	}
	if s.params.Bool("tls") {
		pair, err := SelfSigned(s.params.Text("key"), s.addr.Addr())
		if err != nil {
			return err
		}
		if err := c.Push(ctx, s.dir+"/key.pem", 0o600, bytes.NewReader(pair.Key)); err != nil {
			return err
		}
		if err := c.Push(ctx, s.dir+"/certificate.pem", 0o644, bytes.NewReader(pair.Certificate)); err != nil {
			return err
		}
		s.certificate = pair.Sum
	}
	// Last, because it marks the rest as complete.
	return c.Push(ctx, s.filePath("conf"), 0o644, strings.NewReader(config))
}

// wait polls until the peer gets the page.
func (s *Server) wait(ctx context.Context) error {
	began := time.Now()
	var asked time.Time
	for {
		err := s.fetchPage(ctx, answerTime)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Since(asked) > endTime {
			asked = time.Now()
			if err := s.programError(ctx); err != nil {
				return err
			}
		}
		if time.Since(began) > startTime {
			return fault.Wrap(fault.Subject, "",
				s.explain(ctx, fmt.Errorf("no page from %s within %v: %w", s.addr, startTime, err)))
		}
		_ = sleep.For(ctx, pollTime)
	}
}

// fetchPage fetches the page once, as the generator will, and checks it.
func (s *Server) fetchPage(ctx context.Context, limit time.Duration) error {
	if s.params.Bool("tls") {
		if err := s.loadCertificate(ctx); err != nil {
			return err
		}
	}
	page := s.urls[0] // of a server that bakeoff does not know
	if !s.isUsers() {
		page = urlOf(s.site.Home())
	}
	_, _, err := s.peer().Get(ctx, page, limit)
	return err
}

// http2 reports whether the generator uses HTTP/2.
func (s *Server) http2() bool { return s.params.Text("protocol") == http.Two }

// peer is the server as the load generator's side reaches it, over the measured path.
func (s *Server) peer() load.Peer {
	return load.Peer{Addr: s.addr, HTTP2: s.http2(), Certificate: s.certificate, Dial: s.target.Peer.Dial}
}

// explain adds the end of the server's error log to err.
func (s *Server) explain(ctx context.Context, err error) error {
	if s.isUsers() {
		return s.explainOwn(ctx, err)
	}
	// Read the log even if err is an expired deadline.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	log := conn.Tail{Limit: 2048}
	if s.target.Subject.Pull(ctx, s.dir+"/error.log", &log) == nil && len(log.Bytes()) > 0 {
		return fmt.Errorf("%w; end of the log of %s: %s", err, s.name, bytes.TrimSpace(log.Bytes()))
	}
	return err
}

// loadCertificate reads the server's certificate, or asks the user's server for its own.
func (s *Server) loadCertificate(ctx context.Context) error {
	if s.certificate != "" {
		return nil
	}
	if s.isUsers() {
		var err error
		s.certificate, s.negotiated, err = s.peer().Identify(ctx, checkTime)
		return err
	}
	text, err := readText(ctx, s.target.Subject, s.dir+"/certificate.pem")
	if err != nil {
		return err
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return fault.New(fault.Lab, "the server's certificate is not in PEM format")
	}
	s.certificate = load.SumOf(block.Bytes)
	return nil
}

// Description is the blob that describes the server.
type Description struct {
	Server  string `json:"server"`
	Version string `json:"version"`
	Build   string `json:"build"` // output of nginx -V, lighttpd -V
	User    string `json:"user"`  // of the workers; "" is the user that started it
	Config  string `json:"config"`
	// Program is the user's own program that bakeoff started (server own); empty if it runs
	// without bakeoff.
	Program []string `json:"program,omitempty"`
	// TLS is how the user's server speaks TLS: version, cipher suite, key of the certificate;
	// "" without TLS, and of servers that bakeoff configures.
	TLS string `json:"tls,omitempty"`
}

// stateKey is the key of the description in Target.State.
const stateKey = "http.server"

// storeDescription stores the description of the server for the raw output of the trials.
func (s *Server) storeDescription(ctx context.Context, user string) error {
	if s.target.State == nil || s.target.State[stateKey] != "" {
		return nil
	}
	said, err := s.programOutput(ctx, "-V")
	if err != nil {
		return err
	}
	_, build, _ := strings.Cut(said, "\n")
	b, err := json.Marshal(Description{
		Server: s.name, Version: s.version(said), Build: strings.TrimSpace(build),
		User: user, Config: s.config(s, user),
	})
	s.target.State[stateKey] = string(b)
	return err
}

// programOutput returns the output of the program with flag.
func (s *Server) programOutput(ctx context.Context, flag string) (string, error) {
	said := conn.Tail{Limit: 4096}
	_, err := s.target.Subject.Exec(ctx, conn.Cmd{Argv: []string{s.name, flag}, Stdout: &said, Stderr: &said})
	return string(bytes.ToValidUTF8(said.Bytes(), nil)), err
}

// Describe returns the Description that note stored, as JSON.
func (s *Server) Describe() []byte {
	if text := s.target.State[stateKey]; text != "" {
		return []byte(text)
	}
	return []byte("{}")
}

// maxFile bounds the files that are read back, in bytes.
const maxFile = 64 << 10

func readText(ctx context.Context, c conn.Conn, path string) (string, error) {
	b := conn.Tail{Limit: maxFile}
	if err := c.Pull(ctx, path, &b); err != nil {
		return "", err
	}
	if b.Lost > 0 {
		return "", fault.New(fault.Lab, "%s is longer than %d bytes", path, maxFile)
	}
	return string(b.Bytes()), nil
}

// Start starts the server and waits until the peer gets the page. It does
// nothing if the server runs with the same configuration.
func (s *Server) Start(ctx context.Context) error { return fault.Op(s.name, s.start(ctx)) }

// Check gets the page once, from the peer, and compares it. An error is of kind
// fault.Subject: the server worked before.
func (s *Server) Check(ctx context.Context) error {
	if err := s.fetchPage(ctx, checkTime); err != nil {
		return fault.Wrap(fault.Subject, s.name, s.explain(ctx, fmt.Errorf("the server does not answer: %w", err)))
	}
	return nil
}

// URL is the URL of the page for the peer.
func (s *Server) URL() string {
	scheme, page := "http", PagePath
	if s.params.Bool("tls") {
		scheme = "https"
	}
	if s.isUsers() {
		page = s.urls[0].Path
	}
	return scheme + "://" + s.addr.String() + page
}

// Version is what the program prints with -v; "" if it cannot be run. Of the user's server
// it is what that says about itself.
func (s *Server) Version(ctx context.Context) string {
	if s.isUsers() {
		version, _ := s.serverField(ctx) // it has answered; without a version it is not known
		return version
	}
	said, err := s.programOutput(ctx, "-v")
	if err != nil {
		return ""
	}
	return s.version(said)
}

// Listed reports whether the generator needs a list of URLs: a single page is passed by
// arguments.
func (s *Server) Listed() bool {
	return len(s.urls) > 1 || s.urls[0].Status != 0 || s.urls[0].Varies()
}

// URLs are what the generator requests.
func (s *Server) URLs() []load.URL { return s.urls }

// Addr is the address of the server for the peer.
func (s *Server) Addr() netip.AddrPort { return s.addr }

// Certificate is the SHA-256 of the server's certificate; "" without tls.
func (s *Server) Certificate(ctx context.Context) (string, error) {
	if !s.params.Bool("tls") {
		return "", nil
	}
	err := s.loadCertificate(ctx)
	return s.certificate, err
}

// New returns the server for p in t; it changes nothing yet.
func New(t execution.Target, p param.Values) (*Server, error) {
	switch {
	case t.Subject == nil:
		return nil, fault.New(fault.Lab, "no environment")
	case t.Peer == nil || t.PeerAgent == "":
		return nil, fault.New(fault.Lab, "the trial has no place to run the load generator")
	case !t.Addr.IsValid() && t.State[forwardKey] == "":
		return nil, fault.WithFix(fault.New(fault.Unsupported, "the environment has no address for the load "+
			"generator"), "give it a network: bakeoff list drivers DRIVER shows the options")
	}
	scratch := t.Subject.Info().Scratch
	if !strings.HasPrefix(scratch, "/") || strings.ContainsAny(scratch, " \t\n;\"'{}\\$#") {
		return nil, fault.New(
			fault.Lab,
			"the path of the scratch directory, %q, cannot be used in a server's configuration",
			scratch,
		)
	}
	site, urls, err := content(p)
	if err != nil {
		return nil, err
	}
	s := &Server{program: programOf(p), target: t, params: p, site: site, urls: urls}
	port := s.port()
	if !s.isUsers() {
		port += t.Ports
	}
	s.dir = strings.TrimRight(scratch, "/") + "/http-" + strconv.Itoa(int(port))
	if text := t.State[forwardKey]; text != "" {
		s.addr, err = netip.ParseAddrPort(text)
	} else {
		s.addr = netip.AddrPortFrom(t.Addr.Unmap(), port)
	}
	return s, err
}
