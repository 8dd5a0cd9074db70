-- modes: streaming
SELECT kind, id, qty FROM TO_CHANGELOG(
  input => TABLE goods,
  op => DESCRIPTOR(kind),
  op_mapping => MAP['INSERT, UPDATE_AFTER', 'U', 'DELETE', 'D']
) WHERE id < 6;
