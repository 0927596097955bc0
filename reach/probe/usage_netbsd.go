package probe

const (
	maxRSSUnit   = 1024 // getrusage(2): kilobytes
	rusageThread = rusageSelf
)
