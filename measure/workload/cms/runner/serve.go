package runner

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/hexsum"
	"bakeoff/base/sleep"
	"bakeoff/measure/workload/cms"
	"bakeoff/reach/conn"
)

const (
	// startTime bounds the wait for the first page, answerTime one request.
	startTime  = 30 * time.Second
	answerTime = 15 * time.Second
	pollTime   = 20 * time.Millisecond
	// maxPage bounds a page, in bytes.
	maxPage = 16 << 20
)

// fpmConfig is the configuration of PHP's process manager: a fixed number of
// processes, and the address of the database from the environment.
func (s *site) fpmConfig() string {
	return fmt.Sprintf("[global]\nerror_log = %[1]s/run/php.log\npid = %[1]s/run/php.pid\ndaemonize = yes\n"+
		"[www]\nlisten = %[1]s/run/php.sock\nlisten.mode = 0666\npm = static\npm.max_children = %[2]s\nclear_env = no\n",
		s.dir, s.params.Text("processes"))
}

// webConfig is the configuration of nginx: the application's scripts by
// FastCGI, everything else from its folder. user is nginx's user directive, or
// "".
func (s *site) webConfig(user string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%sworker_processes 1;", user)
	line("pid %s/nginx.pid;", s.dir)
	line("error_log %s/error.log warn;", s.dir)
	line("events { worker_connections 4096; }")
	line("http {")
	line("  access_log off;")
	line("  tcp_nodelay on;")
	line("  keepalive_requests 2147483647;")
	line("  keepalive_timeout 1h;")
	for _, temp := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		line("  %s_temp_path %s/temp/%s;", temp, s.dir, temp)
	}
	line("  server {")
	line("    listen %s backlog=4096;", s.target.ListenAddr(s.addr))
	line("    root %s/htdocs;", s.known.Found.App)
	line(`    location ~ ^(?<script>/[a-z]+\.php)(?<rest>/.*)?$ {`)
	line("      fastcgi_pass unix:%s/run/php.sock;", s.dir)
	for _, v := range [][2]string{
		{"GATEWAY_INTERFACE", "CGI/1.1"}, {"SERVER_SOFTWARE", "nginx"}, {"SERVER_PROTOCOL", "$server_protocol"},
		{"REQUEST_METHOD", "$request_method"}, {"REQUEST_URI", "$request_uri"}, {"QUERY_STRING", "$query_string"},
		{"CONTENT_TYPE", "$content_type"}, {"CONTENT_LENGTH", "$content_length"}, {"REDIRECT_STATUS", "200"},
		{"REMOTE_ADDR", "$remote_addr"}, {"REMOTE_PORT", "$remote_port"}, {"SERVER_ADDR", "$server_addr"},
		{"SERVER_PORT", "$server_port"},
		// Pages contain the name, so it must not depend on the
		// environment.
		{"SERVER_NAME", "calendar.example.org"},
		{"DOCUMENT_ROOT", "$document_root"}, {"SCRIPT_NAME", "$script"}, {"SCRIPT_FILENAME", "$document_root$script"},
		{"PATH_INFO", "$rest"},
	} {
		line("      fastcgi_param %s %s;", v[0], v[1])
	}
	line("    }")
	line("  }")
	line("}")
	return b.String()
}

// serveSite starts PHP and the web server, unless they answer.
func (s *site) serveSite(ctx context.Context) error {
	c := s.target.Subject
	user := ""
	if s.known.UID == "0" {
		group, err := conn.Output(ctx, c, "id", "-gn")
		if err != nil {
			return err
		}
		// The workers must reach the scratch directory, which on a bare
		// host is below directories of root. PHP runs as the database's
		// user.
		user = "user root " + strings.TrimSpace(string(group)) + ";\n"
	}
	config := s.webConfig(user)
	old := conn.Tail{Limit: 64 << 10}
	if c.Pull(ctx, s.dir+"/nginx.conf", &old) == nil && string(old.Bytes()) == config {
		if _, err := s.getPage(ctx, "/davical.css"); err == nil {
			return nil
		}
	}
	if _, err := conn.Output(ctx, c, "mkdir", "-p", s.dir+"/temp", s.dir+"/run"); err != nil {
		return err
	}
	if err := s.startPHP(ctx); err != nil {
		return err
	}
	if err := c.Push(ctx, s.dir+"/nginx.conf", 0o644, strings.NewReader(config)); err != nil {
		return err
	}
	if _, err := conn.Output(ctx, c, "nginx", "-c", s.dir+"/nginx.conf", "-p", s.dir, "-e",
		s.dir+"/error.log"); err != nil {
		return fault.Wrap(fault.Subject, "nginx did not start", err)
	}
	return s.awaitServer(ctx)
}

// startPHP starts PHP's manager as the database's user, unless it runs.
func (s *site) startPHP(ctx context.Context) error {
	c := s.target.Subject
	exit, err := c.Exec(ctx, conn.Command("sh", "-c", `kill -0 "$(cat "$1")" 2>/dev/null`, "sh", s.dir+"/run/php.pid"))
	if err != nil || exit.OK() {
		return err
	}
	if err := c.Push(ctx, s.dir+"/php.conf", 0o644, strings.NewReader(s.fpmConfig())); err != nil {
		return err
	}
	if s.known.UID == "0" {
		// The user that runs PHP creates its socket, log and PID file.
		if _, err := conn.Output(ctx, c, "chmod", "0777", s.dir+"/run"); err != nil {
			return err
		}
	}
	if _, err := s.db.Run(ctx, nil, s.known.Found.FPM, "-y", s.dir+"/php.conf"); err != nil {
		return fault.Wrap(fault.Subject, "PHP did not start", s.explain(ctx, "run/php.log", err))
	}
	return nil
}

// awaitServer polls until the server delivers a file of the application.
func (s *site) awaitServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		_, err := s.getPage(ctx, "/davical.css")
		if err == nil {
			return nil
		}
		if sleep.For(ctx, pollTime) != nil {
			return fault.Wrap(fault.Subject, "",
				s.explain(ctx, "error.log", fmt.Errorf("no page from %s within %v: %w", s.addr, startTime, err)))
		}
	}
}

// getPage fetches one page from the load generator's side. A status other than 200
// is an error.
func (s *site) getPage(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return s.target.Peer.Dial(ctx, network, s.addr.String())
		}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr.String()+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxPage+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxPage:
		return nil, fmt.Errorf("%s is longer than %d bytes", path, maxPage)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: status %s: %.200q", path, response.Status, body)
	}
	return body, nil
}

// askedPages are the pages that the parameters select.
func (s *site) askedPages() []page {
	var out []page
	kind := s.params.Text("pages")
	for _, p := range publicPages(int(s.params.Int("users")), int(s.params.Int("events"))) {
		if kind == cms.All || p.kind == kind {
			out = append(out, p)
		}
	}
	return out
}

// checkPages requests every page once and compares it with what was stored, and with
// its earlier content.
func (s *site) checkPages(ctx context.Context) error {
	for _, p := range s.askedPages() {
		got, err := s.getPage(ctx, p.path)
		if err != nil {
			return fault.Wrap(fault.Subject, "", s.explain(ctx, "error.log", err))
		}
		if why := p.check(got); why != "" {
			return fault.New(fault.Subject, "the page %s %s", p.path, why)
		}
		now := body{Length: len(got), SHA256: hexsum.Of(got)}
		if was, ok := s.known.Pages[p.path]; ok && was != now {
			return fault.New(
				fault.Subject,
				"the page %s has changed: %d bytes instead of %d",
				p.path,
				now.Length,
				was.Length,
			)
		}
		s.known.Pages[p.path] = now
	}
	return nil
}

// explain adds the end of a log to err.
func (s *site) explain(ctx context.Context, name string, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), asideTime)
	defer cancel()
	log := conn.Tail{Limit: 2048}
	if s.target.Subject.Pull(ctx, s.dir+"/"+name, &log) == nil && len(log.Bytes()) > 0 {
		return fmt.Errorf("%w; end of %s: %s", err, name, bytes.TrimSpace(log.Bytes()))
	}
	return err
}
