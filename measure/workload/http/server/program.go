package server

import (
	"fmt"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/workload/http"
)

// program is a web server program: its name is also that of its executable, and of its
// configuration and its PID file.
type program struct {
	name string
	// start is the command that starts the server in the background.
	start func(dir string) []string
	// config returns the configuration; user is the directive of identity.
	config func(s *Server, user string) string
	// user reports whether the configuration can name the user of the workers.
	user bool
	// said is what precedes the version in the output of -v and -V.
	said string
	// lacks are parameters that it cannot have, with the reason.
	lacks map[string]string
}

// servers are the programs by the parameter server.
var servers = map[string]program{
	http.Nginx: {
		name: http.Nginx,
		start: func(dir string) []string {
			return []string{"nginx", "-c", dir + "/nginx.conf", "-p", dir, "-e", dir + "/error.log"}
		},
		config: (*Server).nginx, user: true, said: "nginx version: ",
	},
	http.Lighttpd: {
		name:   http.Lighttpd,
		start:  func(dir string) []string { return []string{"lighttpd", "-f", dir + "/lighttpd.conf"} },
		config: (*Server).lighttpd,
		lacks: map[string]string{
			"ktls":       "bakeoff proves kernel TLS with nginx only",
			"tcp-nopush": "lighttpd decides itself when it holds packets back",
		},
	},
	http.Own: {name: http.Own},
}

// version is the version in what the program prints: nginx/1.22.1, lighttpd/1.4.69.
func (x program) version(said string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(said), x.said), "\n")
	version, _, _ := strings.Cut(first, " - ")
	return version
}

// programOf is the server program for parameters.
func programOf(p param.Values) program {
	if x, ok := servers[p.Text("server")]; ok {
		return x
	}
	return servers[http.Nginx]
}

// check refuses parameters that the program cannot have.
func (x program) check(p param.Values) error {
	for _, name := range []string{"ktls", "tcp-nopush"} {
		if why := x.lacks[name]; why != "" && p.Bool(name) {
			return fault.WithFix(fault.New(fault.Invalid, "%s cannot be set for server %s: %s", name, x.name, why),
				"remove "+name+", or set server: nginx")
		}
	}
	return nil
}

// lighttpd returns lighttpd's configuration. It says what nginx's says: the same
// workers, one connection for as many requests as possible, no logs, files that are
// opened for each request. lighttpd sets TCP_NODELAY on every connection, and it
// accepts at most 65535 requests on one.
func (s *Server) lighttpd(string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	tls := s.params.Bool("tls")
	line("# serves %s", s.site.Sum()) // so that another site changes the configuration
	if tls {
		line(`server.modules = ("mod_openssl")`)
	}
	if n := s.params.Int("workers"); n > 1 {
		line("server.max-worker = %d", n) // without it one process does everything
	}
	line(`server.pid-file = "%s/lighttpd.pid"`, s.dir)
	line(`server.errorlog = "%s/error.log"`, s.dir)
	line(`server.upload-dirs = ("%s/temp")`, s.dir)
	room := descriptors(s.params.Int("connections"))
	line("server.max-fds = %d", room)
	line("server.max-connections = %d", room/2) // the most that lighttpd accepts with so many
	line("server.max-keep-alive-requests = 65535")
	line("server.max-keep-alive-idle = 3600")
	line(`server.stat-cache-engine = "disable"`)
	line("server.listen-backlog = 4096")
	at := s.target.ListenAddr(s.addr)
	line(`server.bind = "%s"`, at.Addr())
	line("server.port = %d", at.Port())
	line(`server.document-root = "%s/www"`, s.dir)
	line(`index-file.names = ("index.html")`)
	line(
		`mimetype.assign = (".html" => "text/html", ".htm" => "text/html", ".css" => "text/css", ".xml" => "text/xml", ` +
			`".txt" => "text/plain", ".svg" => "image/svg+xml", ".png" => "image/png", ".jpg" => "image/jpeg", ` +
			`".jpeg" => "image/jpeg", ".js" => "application/javascript", "" => "application/octet-stream")`,
	)
	two, plain := "disable", "disable"
	if s.params.Bool("http2") || s.http2() {
		two = "enable"
	}
	if s.http2() && !tls {
		plain = "enable"
	}
	line(`server.feature-flags = ("server.h2proto" => "%s", "server.h2c" => "%s")`, two, plain)
	if tls {
		line(`ssl.engine = "enable"`)
		line(`ssl.pemfile = "%s/certificate.pem"`, s.dir)
		line(`ssl.privkey = "%s/key.pem"`, s.dir)
		line(`ssl.openssl.ssl-conf-cmd = ("MinProtocol" => "TLSv1.2", "MaxProtocol" => "TLSv1.3")`)
	}
	return b.String()
}
