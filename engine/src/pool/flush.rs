//! Write-back: batches of dirty pages through the doublewrite file, log before page (I1) checked here, once.
