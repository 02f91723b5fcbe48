package postgres

import "embed"

// Names for the tests of this package.
var (
	SQLFiles        = []embed.FS{sqlFiles, effectFiles}
	Wrap            = wrap
	CheckSession    = checkSession
	AcceptSQL       = acceptSQL
	PlainSQL        = acceptPlainSQL
	ClaimSQL        = claimChargesSQL
	MessageSQL      = claimMessagesSQL
	GenericPlansSQL = genericPlansSQL
	SettleSQL       = settleChargesSQL
	ListSQL         = map[string]string{
		"all": apiListAllSQL, "client": apiListClientSQL, "waiting": apiListWaitingSQL, "order": apiListOrderSQL,
	}
)
